# Rules that write the device templates and the library's build identity as C++ (codegen/embedded_templates.h).

# CONFIGURE_DEPENDS, here and in targets.cmake: several people add files at once, and a build that silently leaves a new
# file out costs more than listing a few directories each time.
file(GLOB_RECURSE template_files CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/templates/tilewright/*.cuh" "${PROJECT_SOURCE_DIR}/templates/tilewright/host/*.h")
file(GLOB_RECURSE identity_files CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/codegen/*.h" "${PROJECT_SOURCE_DIR}/codegen/*.cpp"
  "${PROJECT_SOURCE_DIR}/ops/*.h" "${PROJECT_SOURCE_DIR}/ops/*.cpp"
  "${PROJECT_SOURCE_DIR}/runtime/*.h" "${PROJECT_SOURCE_DIR}/runtime/*.hpp" "${PROJECT_SOURCE_DIR}/runtime/*.cpp")
list(APPEND identity_files ${template_files})

set(TILEWRIGHT_GENERATED_DIR "${PROJECT_BINARY_DIR}/generated")
# Lists go through files: a command line would not hold every name.
list(JOIN template_files "\n" template_list)
list(JOIN identity_files "\n" identity_list)
file(CONFIGURE OUTPUT "${TILEWRIGHT_GENERATED_DIR}/template_files.txt" CONTENT "${template_list}\n" @ONLY)
file(CONFIGURE OUTPUT "${TILEWRIGHT_GENERATED_DIR}/identity_files.txt" CONTENT "${identity_list}\n" @ONLY)

set(embed_script "${PROJECT_SOURCE_DIR}/cmake/write_embedded.cmake")
add_custom_command(
  OUTPUT "${TILEWRIGHT_GENERATED_DIR}/templates_embedded.cpp"
  COMMAND "${CMAKE_COMMAND}" -D WHAT=templates -D "ROOT=${PROJECT_SOURCE_DIR}" -D "DIRECTORY=${TILEWRIGHT_GENERATED_DIR}" -P "${embed_script}"
  DEPENDS "${embed_script}" "${TILEWRIGHT_GENERATED_DIR}/template_files.txt" ${template_files}
  COMMENT "Embedding the device templates"
  VERBATIM)
add_custom_command(
  OUTPUT "${TILEWRIGHT_GENERATED_DIR}/build_identity.cpp"
  COMMAND "${CMAKE_COMMAND}" -D WHAT=identity -D "ROOT=${PROJECT_SOURCE_DIR}" -D "DIRECTORY=${TILEWRIGHT_GENERATED_DIR}"
          -D "VERSION=${PROJECT_VERSION}" -P "${embed_script}"
  DEPENDS "${embed_script}" "${TILEWRIGHT_GENERATED_DIR}/identity_files.txt" ${identity_files}
  COMMENT "Hashing the sources for the build identity"
  VERBATIM)
