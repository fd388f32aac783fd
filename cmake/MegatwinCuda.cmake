# Looks for nvcc and, where one works, enables the language CUDA; MEGATWIN_HAS_CUDA says so. Without
# nvcc everything but the device code is built.
#
# CMake 3.25 does not know which flag gives C++20 to an nvcc of release 13, and refuses to compile;
# the flags are therefore named here before the language is enabled.
set(MEGATWIN_HAS_CUDA OFF)
if(NOT MEGATWIN_CUDA)
  return()
endif()

find_program(MEGATWIN_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
if(NOT MEGATWIN_NVCC)
  message(STATUS "nvcc was not found: device code is left out")
  return()
endif()

# A toolkit that cannot compile here (no headers, a host compiler that is too new) is as good as none.
set(ENV{CUDACXX} ${MEGATWIN_NVCC})
set(CMAKE_CUDA_ARCHITECTURES 80-real 90a-real CACHE STRING "A100 and H100, machine code only")
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(STATUS "${MEGATWIN_NVCC} does not compile here: device code is left out")
  return()
endif()

set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
enable_language(CUDA)
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
find_package(CUDAToolkit REQUIRED)
set(MEGATWIN_HAS_CUDA ON)
