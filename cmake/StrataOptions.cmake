# Build type, language level, warnings, sanitizers.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
option(STRATA_BUILD_TESTS "Build the tests (needs GoogleTest)" ON)
option(STRATA_WERROR "Treat warnings as errors" OFF)
set(STRATA_SANITIZE "" CACHE STRING "address (with undefined), thread, or empty")

# Off with a compiler cache, which is no help to files that share compiled headers.
set(quick ON)
if(CMAKE_CXX_COMPILER_LAUNCHER)
  set(quick OFF)
endif()
option(STRATA_QUICK_BUILD "Compile the tests' common headers once, and the tests with -O1" ${quick})

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# Contracted multiply-adds would make bits depend on the instruction set: where one happens is
# written in the code (std::fma) or does not happen.
add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-Wall;-Wextra;-ffp-contract=off;-fno-math-errno>")
if(STRATA_WERROR)
  add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-Werror>")
endif()

if(STRATA_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined -g)
  add_link_options(-fsanitize=address,undefined)
elseif(STRATA_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer -g)
  add_link_options(-fsanitize=thread)
elseif(NOT STRATA_SANITIZE STREQUAL "")
  message(FATAL_ERROR "STRATA_SANITIZE is address, thread or empty, not '${STRATA_SANITIZE}'")
endif()
