# strata_library(NAME SOURCES… [PUBLIC…] [PRIVATE…]): the static library of one folder.
function(strata_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE})
endfunction()

# strata_isa_sources(TARGET FILE…): compiles each file once per instruction set, with STRATA_ISA
# (scalar, avx2 or avx512) defined: the name of the namespace that its functions live in.
function(strata_isa_sources target)
  set(flags_scalar "-march=x86-64")
  set(flags_avx2 "-march=x86-64-v3")
  set(flags_avx512 "-march=x86-64-v4;-mprefer-vector-width=512")
  foreach(isa scalar avx2 avx512)
    add_library(${target}_${isa} OBJECT ${ARGN})
    target_include_directories(${target}_${isa} PRIVATE ${PROJECT_SOURCE_DIR})
    target_compile_definitions(${target}_${isa} PRIVATE STRATA_ISA=${isa})
    target_compile_options(${target}_${isa} PRIVATE ${flags_${isa}})
    target_link_libraries(${target}_${isa} PRIVATE fmt::fmt)
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_${isa}>)
  endforeach()
endfunction()
