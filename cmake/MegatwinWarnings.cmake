# The warnings that every target of ours is built with, and the sanitizers of the asan/tsan presets.
add_library(megatwin_options INTERFACE)
target_compile_options(megatwin_options INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Wno-sign-conversion -Wno-missing-field-initializers -Werror)
# gcc 13 sees writes beyond {fmt} 9's buffers that cannot happen (GCC bug 105329 and its kin).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  target_compile_options(megatwin_options INTERFACE -Wno-array-bounds -Wno-stringop-overflow)
endif()
# Several files in one unit, as most presets compile: names that are apart in files of their own hide
# each other there. The presets that compile file by file, dev and tidy, keep these warnings.
if(CMAKE_UNITY_BUILD)
  target_compile_options(megatwin_options INTERFACE -Wno-shadow -Wno-subobject-linkage)
endif()
target_include_directories(megatwin_options INTERFACE ${CMAKE_SOURCE_DIR})
if(MEGATWIN_SANITIZE)
  target_compile_options(megatwin_options INTERFACE
    -fsanitize=${MEGATWIN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  # gcc 12 takes std::regex's own states for uninitialised once the sanitizer's code is between.
  target_compile_options(megatwin_options INTERFACE
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(megatwin_options INTERFACE -fsanitize=${MEGATWIN_SANITIZE})
endif()
