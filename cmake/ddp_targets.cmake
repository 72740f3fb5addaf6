# How this project builds its targets: warnings, sanitizers, and the one place that knows whether a
# .cu file is compiled by nvcc (preset cuda) or as C++ against the simulated GPUs (preset sim).

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

find_program(DDP_CCACHE ccache)
if(DDP_CCACHE)
  # The sloppiness is what it wants in order to work with precompiled headers.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
    ${DDP_CCACHE})
endif()

# Where nobody changes a file and builds again and again, all sources of a target are compiled as one, so
# that headers are parsed once: in builds that are made to check, and in simgpu/ and common/. That forbids
# two files of a target to have different things of one name in a nameless namespace.
if(DDP_SANITIZE OR DDP_ONLY_CHECK_NVCC)
  set(CMAKE_UNITY_BUILD ON)
endif()
set(CMAKE_UNITY_BUILD_BATCH_SIZE 0)

find_package(Threads REQUIRED)

# The build of a lab (tools/lab): a file of DDP_LAB_OVERLAY stands for the one of the same path here, and
# what comes before DDP_LAB_STAGE is not compiled again but taken from DDP_LAB_REFERENCE, a build of all.
set(DDP_LAB_OVERLAY "" CACHE PATH "a student's files, by their paths from the root; empty for none")
set(DDP_LAB_STAGE "" CACHE STRING "the folder of the first stage that the overlay has files of")
set(DDP_LAB_REFERENCE "" CACHE PATH "the folder of a build with the same preset")

add_library(ddp_flags INTERFACE)
target_include_directories(ddp_flags INTERFACE ${DDP_LAB_OVERLAY} ${CMAKE_SOURCE_DIR})
target_link_libraries(ddp_flags INTERFACE Threads::Threads)
# Warnings are errors where we test; a reader's newer compiler may have warnings of its own.
if(DEFINED ENV{CI})
  set(DDP_WARNINGS_ARE_ERRORS ON)
endif()
option(DDP_WARNINGS_ARE_ERRORS "stop at a compiler's warning" OFF)
set(DDP_WARNINGS -Wall -Wextra -Wconversion -Wshadow
  $<$<BOOL:${DDP_WARNINGS_ARE_ERRORS}>:-Werror>)
# No fused multiply-add behind our back: the same source gives the same bits on every CPU.
target_compile_options(ddp_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:${DDP_WARNINGS} -ffp-contract=off>)

if(DDP_GPU STREQUAL "cuda")
  if(NOT CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)
    set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
  endif()
  enable_language(CUDA)
  # CMake 3.25.1 does not know that nvcc has C++20.
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  find_package(CUDAToolkit 12.4 REQUIRED)
  add_library(ddp_gpu INTERFACE)
  target_link_libraries(ddp_gpu INTERFACE CUDA::cudart CUDA::cublas)
  find_package(NCCL 2.18 REQUIRED)
  add_library(ddp_nccl INTERFACE)  # for those who use it, beside ddp_gpu
  target_link_libraries(ddp_nccl INTERFACE NCCL::nccl)
  target_compile_options(ddp_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>
    $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${DDP_WARNINGS_ARE_ERRORS}>>:-Werror=all-warnings>)
elseif(DDP_GPU STREQUAL "sim")
  add_library(ddp_gpu INTERFACE)
  target_link_libraries(ddp_gpu INTERFACE simgpu)
  add_library(ddp_nccl INTERFACE)
  target_link_libraries(ddp_nccl INTERFACE simgpu)
else()
  message(FATAL_ERROR "DDP_GPU is '${DDP_GPU}'; it must be sim or cuda")
endif()

if(DDP_SANITIZE)
  if(NOT DDP_GPU STREQUAL "sim")
    message(FATAL_ERROR "DDP_SANITIZE needs DDP_GPU=sim; for real GPUs use compute-sanitizer")
  endif()
  # Programs with a report end with a status other than 0, so that a test sees it.
  add_library(ddp_sanitize INTERFACE)
  target_compile_options(ddp_sanitize INTERFACE -fsanitize=${DDP_SANITIZE} -fno-omit-frame-pointer)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # which then suspects values that are set of not being so
    target_compile_options(ddp_sanitize INTERFACE -Wno-maybe-uninitialized)
  endif()
  target_link_options(ddp_sanitize INTERFACE -fsanitize=${DDP_SANITIZE})
  target_link_libraries(ddp_flags INTERFACE ddp_sanitize)
endif()

# How the C++ compiler takes kernels, and all else: all instructions of this CPU, and selections without
# branches, which half of all ReLUs would mispredict. Neither changes a bit, since nothing is fused or
# reordered.
if(DDP_GPU STREQUAL "sim")
  include(CheckCXXCompilerFlag)
  check_cxx_compiler_flag(-march=native DDP_HAS_MARCH_NATIVE)
  set(DDP_KERNEL_OPTIONS -fno-trapping-math $<$<BOOL:${DDP_HAS_MARCH_NATIVE}>:-march=native>)
  target_compile_options(ddp_flags INTERFACE ${DDP_KERNEL_OPTIONS})

  # What most files include, for which the compiler takes a second and more, parsed once. Files still
  # include what they use.
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/ddp_headers.cpp CONTENT "")
  add_library(ddp_headers OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/ddp_headers.cpp)
  target_link_libraries(ddp_headers PRIVATE ddp_flags)
  target_precompile_headers(ddp_headers PRIVATE <algorithm> <atomic> <chrono> <cmath> <filesystem> <functional>
    <memory> <mutex> <numeric> <optional> <span> <string> <thread> <vector>)
endif()

# For the simulated GPU .cu files are C++.
function(ddp_compile_cu_files target)
  if(DDP_GPU STREQUAL "sim")
    get_target_property(sources ${target} SOURCES)
    list(FILTER sources INCLUDE REGEX "\\.cu$")
    set_source_files_properties(${sources} PROPERTIES LANGUAGE CXX)
    target_precompile_headers(${target} REUSE_FROM ddp_headers)
  endif()
endfunction()

# CMake 3.25 makes one of the .cpp files only. Sets `result` to the sources, with one .cu file that includes
# all of them, where that is wanted.
function(ddp_cu_files_as_one result target)
  set(sources ${ARGN})
  set(cu_files ${sources})
  list(FILTER cu_files INCLUDE REGEX "\\.cu$")
  list(LENGTH cu_files count)
  if(DDP_ONLY_CHECK_NVCC AND count GREATER 1)
    list(FILTER sources EXCLUDE REGEX "\\.cu$")
    list(TRANSFORM cu_files REPLACE "(.+)" "#include \"${CMAKE_CURRENT_SOURCE_DIR}/\\1\"")
    list(JOIN cu_files "\n" text)
    set(all ${CMAKE_CURRENT_BINARY_DIR}/${target}_all.cu)
    file(CONFIGURE OUTPUT ${all} CONTENT "${text}\n" @ONLY)
    list(APPEND sources ${all})
  endif()
  set(${result} ${sources} PARENT_SCOPE)
endfunction()

# Sets `result` to the sources, each that of the overlay where it has one.
function(ddp_overlaid result)
  set(sources ${ARGN})
  if(DDP_LAB_OVERLAY)
    file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
    list(TRANSFORM sources PREPEND ${DDP_LAB_OVERLAY}/${folder}/ OUTPUT_VARIABLE overlaid)
    foreach(source overlay IN ZIP_LISTS ARGN overlaid)
      if(EXISTS ${overlay})
        list(TRANSFORM sources REPLACE "^${source}$" ${overlay})
      endif()
    endforeach()
  endif()
  set(${result} ${sources} PARENT_SCOPE)
endfunction()

# In the build of a lab, a library of what comes before it: nothing to compile, and whoever links it gets
# the one of the reference.
function(ddp_take_from_reference target)
  file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  if(NOT DDP_LAB_REFERENCE OR NOT folder MATCHES "^(simgpu|common|tests/support|[0-9][0-9]_.*)$" OR
      (folder MATCHES "^[0-9]" AND NOT folder STRLESS DDP_LAB_STAGE))
    return()
  endif()
  set(nothing ${CMAKE_BINARY_DIR}/nothing.cpp)
  if(NOT EXISTS ${nothing})
    file(WRITE ${nothing} "")
  endif()
  # The two name each other, so that the linker gets both before what either needs.
  add_library(${target}_reference STATIC IMPORTED GLOBAL)
  set_target_properties(${target}_reference PROPERTIES INTERFACE_LINK_LIBRARIES ${target} IMPORTED_LOCATION
    ${DDP_LAB_REFERENCE}/${folder}/${CMAKE_STATIC_LIBRARY_PREFIX}${target}${CMAKE_STATIC_LIBRARY_SUFFIX})
  set_target_properties(${target} PROPERTIES SOURCES ${nothing})
  target_link_libraries(${target} INTERFACE ${target}_reference)
endfunction()

# With DDP_ONLY_CHECK_NVCC a target is the PTX of its .cu files, which takes a third of the time: nvcc reads
# the host's part, too, but does not compile it. That is compiled, and linked, for simulated GPUs. A target
# without .cu files only says what is needed to include its headers.
function(ddp_ptx_target name)
  set(cu_files ${ARGN})
  list(FILTER cu_files INCLUDE REGEX "\\.cu$")
  if(cu_files)
    add_library(${name} OBJECT ${cu_files})
    set_target_properties(${name} PROPERTIES CUDA_PTX_COMPILATION ON)
  else()
    add_library(${name} STATIC EXCLUDE_FROM_ALL ${ARGN})
  endif()
endfunction()

# ddp_library(name sources...): a static library of our own code.
function(ddp_library name)
  ddp_overlaid(sources ${ARGN})
  ddp_cu_files_as_one(sources ${name} ${sources})
  if(DDP_ONLY_CHECK_NVCC)
    ddp_ptx_target(${name} ${sources})
  else()
    add_library(${name} STATIC ${sources})
  endif()
  target_link_libraries(${name} PUBLIC ddp_flags ddp_gpu)
  ddp_take_from_reference(${name})
  ddp_compile_cu_files(${name})
endfunction()

# ddp_program(name sources...): a program in build/<preset>/bin.
function(ddp_program name)
  ddp_overlaid(sources ${ARGN})
  if(DDP_ONLY_CHECK_NVCC)
    ddp_ptx_target(${name} ${sources})
  else()
    add_executable(${name} ${sources})
  endif()
  target_link_libraries(${name} PRIVATE ddp_flags ddp_gpu)
  ddp_compile_cu_files(${name})
endfunction()
