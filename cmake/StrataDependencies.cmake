# Every library Strata links, in one place. The README names the packages that bring them.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(TBB REQUIRED COMPONENTS tbb)
find_package(dnnl REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)  # oneDNN's threads, which we switch off per thread
pkg_check_modules(URING REQUIRED IMPORTED_TARGET liburing)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)

# Without MPI everything works on one rank.
option(STRATA_MPI "Several ranks through MPI" ON)
if(STRATA_MPI)
  find_package(MPI COMPONENTS C)
  if(NOT MPI_C_FOUND)
    message(STATUS "No MPI found: this build trains on one rank")
  endif()
endif()

if(STRATA_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
