# The CUDA toolkit: STRATA_CUDA_FOUND tells whether there is one, STRATA_CUDA_COMPILES whether its
# compiler is used. What needs neither builds without.
set(STRATA_CUDA AUTO CACHE STRING "The CUDA backend: AUTO (where nvcc is found), ON or OFF")
execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
  OUTPUT_VARIABLE gpus OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET TIMEOUT 20)
string(REGEX MATCHALL "[0-9]+[.][0-9]" gpus "${gpus}")
string(REPLACE "." "" gpus "${gpus}")
list(REMOVE_DUPLICATES gpus)
if(NOT gpus)
  set(gpus 90)
endif()
set(STRATA_CUDA_ARCHITECTURES "${gpus}" CACHE STRING
  "What nvcc compiles for: a list such as 80;90, or all; by default the GPUs here, or else 90")
if(NOT STRATA_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "STRATA_CUDA is AUTO, ON or OFF, not '${STRATA_CUDA}'")
endif()

# Attention by cuDNN: STRATA_CUDNN_FOUND tells whether its header and cudnn-frontend's are there.
set(STRATA_CUDNN AUTO CACHE STRING "Attention by cuDNN: AUTO (where its headers are), ON or OFF")
if(NOT STRATA_CUDNN MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "STRATA_CUDNN is AUTO, ON or OFF, not '${STRATA_CUDNN}'")
endif()
set(STRATA_CUDNN_FOUND OFF)
macro(strata_find_cudnn)
  find_path(STRATA_CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_path(STRATA_CUDNN_FRONTEND cudnn_frontend.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  if(STRATA_CUDNN STREQUAL "OFF")
    # Ours alone.
  elseif(STRATA_CUDNN_INCLUDE AND STRATA_CUDNN_FRONTEND)
    set(STRATA_CUDNN_FOUND ON)
  elseif(STRATA_CUDNN STREQUAL "ON")
    message(FATAL_ERROR "STRATA_CUDNN is ON, but there is no cudnn.h or no cudnn_frontend.h; give "
      "their folders with -DSTRATA_CUDNN_INCLUDE=… and -DSTRATA_CUDNN_FRONTEND=…")
  else()
    message(STATUS "No cudnn.h or no cudnn_frontend.h found: attention by Strata's own kernels")
  endif()
endmacro()

set(STRATA_CUDA_FOUND OFF)
if(NOT STRATA_CUDA STREQUAL "OFF")
  find_program(STRATA_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATH_SUFFIXES bin
    PATHS /usr/local/cuda)
  if(STRATA_NVCC)
    get_filename_component(nvcc_folder ${STRATA_NVCC} DIRECTORY)
    get_filename_component(CUDAToolkit_ROOT ${nvcc_folder} DIRECTORY)
    find_package(CUDAToolkit REQUIRED)
    set(STRATA_CUDA_FOUND ON)
    find_path(STRATA_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    if(NOT STRATA_NCCL_INCLUDE)
      message(STATUS "No nccl.h found: the CUDA backend trains on one rank")
    endif()
    strata_find_cudnn()
  elseif(STRATA_CUDA STREQUAL "ON")
    message(FATAL_ERROR "STRATA_CUDA is ON, but there is no nvcc in PATH, CUDA_HOME or "
      "/usr/local/cuda; give it with -DSTRATA_NVCC=…")
  else()
    message(STATUS "No CUDA toolkit found: this build has no CUDA backend")
  endif()
endif()

# A sanitizer sees the backend's code on the simulated device (tests/cuda_sim) alone.
set(STRATA_CUDA_COMPILES ${STRATA_CUDA_FOUND})
if(STRATA_SANITIZE)
  set(STRATA_CUDA_COMPILES OFF)
endif()
if(STRATA_CUDA_COMPILES)
  set(CMAKE_CUDA_COMPILER ${STRATA_NVCC})
  if(STRATA_CUDA_ARCHITECTURES STREQUAL "all")
    set(CMAKE_CUDA_ARCHITECTURES 80 86 89 90 100 120)
  else()
    set(CMAKE_CUDA_ARCHITECTURES ${STRATA_CUDA_ARCHITECTURES})
  endif()
  if(CMAKE_CXX_COMPILER_LAUNCHER AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  endif()
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake before 3.26
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  endif()
  add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-Xcompiler=-Wall>")
  # fmt 9 takes nvcc for a compiler without constexpr, which it needs in C++20.
  add_compile_definitions("$<$<COMPILE_LANGUAGE:CUDA>:FMT_USE_CONSTEXPR=1>")
endif()

# What the program and its backend are compiled with must be the same: the stamp tells.
file(GLOB interface_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/base/*.h
  ${PROJECT_SOURCE_DIR}/kernels/device/*.h ${PROJECT_SOURCE_DIR}/kernels/ops/*.h
  ${PROJECT_SOURCE_DIR}/offload/comm/communicator.h ${PROJECT_SOURCE_DIR}/offload/comm/nccl.h
  ${PROJECT_SOURCE_DIR}/offload/comm/device_collectives.h
  ${PROJECT_SOURCE_DIR}/optim_cpu/*.h ${PROJECT_SOURCE_DIR}/optim_cuda/*.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${interface_headers})
set(interface "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
foreach(header IN LISTS interface_headers)
  file(SHA256 ${header} hash)
  string(APPEND interface " ${hash}")
endforeach()
string(SHA256 interface "${interface}")
string(SUBSTRING ${interface} 0 12 interface)
set(STRATA_CUDA_STAMP "${PROJECT_VERSION}-${interface}")

# strata_cuda_stamp(FILE): defines STRATA_CUDA_STAMP in one file of the folder at hand.
function(strata_cuda_stamp file)
  set_property(SOURCE ${file} APPEND PROPERTY COMPILE_DEFINITIONS
    STRATA_CUDA_STAMP="${STRATA_CUDA_STAMP}")
endfunction()

# strata_cuda_backend(TARGET OBJECT_OR_SOURCE…): a shared object that the program loads
# (kernels/device/cuda_backend.h); of its symbols only the entry points can be seen.
function(strata_cuda_backend name)
  add_library(${name} MODULE ${ARGN})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX
    CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_link_libraries(${name} PRIVATE strata_device)
  target_link_options(${name} PRIVATE -Wl,--exclude-libs,ALL -Wl,--no-undefined)
endfunction()

# strata_cudnn(TARGET): attention by cuDNN, for a backend of a GPU. Its library is loaded at run time.
function(strata_cudnn target)
  if(NOT STRATA_CUDNN_FOUND)
    return()
  endif()
  set(source ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../kernels/ops/cuda/cudnn/attention.cc)
  target_sources(${target} PRIVATE ${source})
  target_compile_definitions(${target} PRIVATE STRATA_HAVE_CUDNN)
  target_include_directories(${target} SYSTEM PRIVATE ${STRATA_CUDNN_INCLUDE}
    ${STRATA_CUDNN_FRONTEND})
  # Host code that sets up graphs, of headers that take minutes to optimize.
  set_source_files_properties(${source} TARGET_DIRECTORY ${target} PROPERTIES COMPILE_OPTIONS -O1)
endfunction()

# strata_nccl(TARGET): collectives between GPUs, for a backend; without nccl.h they are refused.
# NCCL's library is loaded at run time.
function(strata_nccl target)
  set(folder ${PROJECT_SOURCE_DIR}/offload/comm/cuda)
  set(sources ${folder}/entry_points.cc)
  if(STRATA_NCCL_INCLUDE)
    file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cc ${folder}/*.cu)
    set_source_files_properties(${folder}/entry_points.cc TARGET_DIRECTORY ${target}
      PROPERTIES COMPILE_DEFINITIONS STRATA_HAVE_NCCL)
  endif()
  target_sources(${target} PRIVATE ${sources})
endfunction()
