# One object library per directory, and what is made of them: the shared and the static library and the tool.

# tw_directory(NAME GLOB... [GENERATED FILE...]): object library NAME of the matching sources. A directory may be empty.
function(tw_directory name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "GLOB;EXCLUDE;GENERATED")
  set(globs ${arg_GLOB})
  list(TRANSFORM globs PREPEND "${PROJECT_SOURCE_DIR}/")
  file(GLOB sources CONFIGURE_DEPENDS ${globs})
  if(arg_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${arg_EXCLUDE}")
  endif()
  list(APPEND sources ${arg_GENERATED})
  if(NOT sources)
    file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/${name}_empty.cpp" CONTENT "" @ONLY)
    set(sources "${PROJECT_BINARY_DIR}/generated/${name}_empty.cpp")
  endif()
  add_library(${name} OBJECT ${sources})
  target_link_libraries(${name} PUBLIC tw_options tw_dependencies)
endfunction()

tw_directory(tw_runtime GLOB runtime/*.cpp runtime/host/*.cpp)
tw_directory(tw_ops GLOB ops/*.cpp)
tw_directory(tw_codegen GLOB codegen/*.cpp
  GENERATED "${TILEWRIGHT_GENERATED_DIR}/templates_embedded.cpp" "${TILEWRIGHT_GENERATED_DIR}/build_identity.cpp")
tw_directory(tw_autotune GLOB autotune/*.cpp)
tw_directory(tw_api GLOB runtime/api/*.cpp)
# The tool without its main, so that its parts can be tested.
tw_directory(tw_tools GLOB tools/*.cpp EXCLUDE "/main\\.cpp$")
target_link_libraries(tw_tools PUBLIC CLI11::CLI11)

set(TILEWRIGHT_LIBRARIES tw_api tw_autotune tw_codegen tw_ops tw_runtime)

# libtilewright.so exports tw_* and nothing else; LLVM and fmt inside are invisible to a program with its own.
add_library(tilewright_shared SHARED)
target_link_libraries(tilewright_shared PRIVATE ${TILEWRIGHT_LIBRARIES} ${TILEWRIGHT_ARCHIVES} ${CMAKE_DL_LIBS})
set(exports "${PROJECT_SOURCE_DIR}/cmake/exports.map")
target_link_options(tilewright_shared PRIVATE "-Wl,--version-script=${exports}" -Wl,--exclude-libs,ALL)
if(NOT TILEWRIGHT_SANITIZE)
  target_link_options(tilewright_shared PRIVATE -Wl,-z,defs)
endif()
set_target_properties(tilewright_shared PROPERTIES
  OUTPUT_NAME tilewright VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} LINK_DEPENDS "${exports}")
target_include_directories(tilewright_shared INTERFACE "${PROJECT_SOURCE_DIR}")

# libtilewright.a holds one object: everything linked together, then every symbol but tw_* made local. A plain archive would
# show LLVM's symbols, and a host with another LLVM would get a mix of both. Groups are dissolved because the linker would
# otherwise drop ours in favour of the host's copy while our local symbols still refer to it.
set(static_library "${PROJECT_BINARY_DIR}/libtilewright.a")
set(object_files "")
foreach(library IN LISTS TILEWRIGHT_LIBRARIES)
  list(APPEND object_files "$<TARGET_OBJECTS:${library}>")
endforeach()
add_custom_command(
  OUTPUT "${static_library}"
  COMMAND "${CMAKE_LINKER}" -r --force-group-allocation -o tilewright.o ${object_files} ${TILEWRIGHT_ARCHIVES} ${TILEWRIGHT_FMT_ARCHIVE}
  COMMAND "${CMAKE_OBJCOPY}" --wildcard "--keep-global-symbol=tw_*" tilewright.o
  COMMAND "${CMAKE_COMMAND}" -E rm -f "${static_library}"
  COMMAND "${CMAKE_AR}" rcs "${static_library}" tilewright.o
  COMMAND "${CMAKE_COMMAND}" -E rm -f tilewright.o
  DEPENDS ${object_files} ${TILEWRIGHT_LIBRARIES} ${TILEWRIGHT_FMT_ARCHIVE}
  WORKING_DIRECTORY "${PROJECT_BINARY_DIR}"
  COMMENT "Linking libtilewright.a"
  COMMAND_EXPAND_LISTS
  VERBATIM)
add_custom_target(tilewright_static_file ALL DEPENDS "${static_library}")
add_library(tilewright_static STATIC IMPORTED GLOBAL)
set_target_properties(tilewright_static PROPERTIES
  IMPORTED_LOCATION "${static_library}"
  INTERFACE_INCLUDE_DIRECTORIES "${PROJECT_SOURCE_DIR}"
  INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m;stdc++")
add_dependencies(tilewright_static tilewright_static_file)
if(TILEWRIGHT_SANITIZE)
  # Whoever links either library needs the sanitizer's runtime, first of all.
  foreach(library IN ITEMS tilewright_shared tilewright_static)
    set_property(TARGET ${library} APPEND PROPERTY INTERFACE_LINK_OPTIONS "-fsanitize=${TILEWRIGHT_SANITIZE}")
  endforeach()
endif()

if(EXISTS "${PROJECT_SOURCE_DIR}/tools/main.cpp")
  add_executable(tilewright tools/main.cpp)
  target_link_libraries(tilewright PRIVATE tw_tools ${TILEWRIGHT_LIBRARIES} ${TILEWRIGHT_ARCHIVES} ${CMAKE_DL_LIBS})
  install(TARGETS tilewright)
endif()

include(GNUInstallDirs)
install(TARGETS tilewright_shared LIBRARY)
install(FILES "${static_library}" DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(FILES runtime/api/tilewright.h runtime/api/tilewright.hpp DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/runtime/api")
