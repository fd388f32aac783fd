# The warnings that every target of ours is built with, and the sanitizers of the asan/tsan presets.
add_library(megatwin_options INTERFACE)
target_compile_options(megatwin_options INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Wno-sign-conversion -Wno-missing-field-initializers -Werror)
target_include_directories(megatwin_options INTERFACE ${CMAKE_SOURCE_DIR})
if(MEGATWIN_SANITIZE)
  target_compile_options(megatwin_options INTERFACE
    -fsanitize=${MEGATWIN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  # gcc 12 takes std::regex's own states for uninitialised once the sanitizer's code is between.
  target_compile_options(megatwin_options INTERFACE
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(megatwin_options INTERFACE -fsanitize=${MEGATWIN_SANITIZE})
endif()
