# Run with cmake -P by the rules of embed.cmake. WHAT=templates writes templates_embedded.cpp, WHAT=identity writes
# build_identity.cpp. ROOT is the checkout, DIRECTORY holds the lists and takes the result, VERSION is the project's.
cmake_minimum_required(VERSION 3.25)

# Relative names in byte order: the result depends on neither the checkout's place nor the file system's order.
function(read_list file result)
  file(STRINGS "${file}" paths)
  set(names "")
  foreach(path IN LISTS paths)
    file(RELATIVE_PATH name "${ROOT}" "${path}")
    list(APPEND names "${name}")
  endforeach()
  list(SORT names COMPARE STRING)
  set(${result} "${names}" PARENT_SCOPE)
endfunction()

function(write_if_different file text)
  if(EXISTS "${file}")
    file(READ "${file}" old)
    if(old STREQUAL text)
      return()
    endif()
  endif()
  file(WRITE "${file}" "${text}")
endfunction()

if(WHAT STREQUAL "templates")
  read_list("${DIRECTORY}/template_files.txt" names)
  set(out "// Written by cmake/write_embedded.cmake from templates/. Do not edit.\n#include \"codegen/embedded_templates.h\"\n\n#include <array>\n\n")
  string(APPEND out "namespace tilewright {\nnamespace {\n\n")
  set(table "")
  set(count 0)
  foreach(name IN LISTS names)
    file(READ "${ROOT}/${name}" text)
    string(FIND "${text}" ")tw_text\"" clash)
    if(NOT clash EQUAL -1)
      message(FATAL_ERROR "${name} contains )tw_text\", which ends the string literal that it is embedded in")
    endif()
    if(text MATCHES "[^\t\n -~]")
      message(FATAL_ERROR "${name} contains something other than ASCII text and line feeds")
    endif()
    string(REGEX REPLACE "^templates/" "" included_as "${name}")
    # In pieces, because a compiler need not take one literal of more than 65536 characters.
    string(APPEND out "constexpr char kText${count}[] =")
    string(LENGTH "${text}" length)
    set(at 0)
    if(length EQUAL 0)
      string(APPEND out " \"\"")
    endif()
    while(at LESS length)
      string(SUBSTRING "${text}" ${at} 16000 piece)
      string(APPEND out "\n    R\"tw_text(${piece})tw_text\"")
      math(EXPR at "${at} + 16000")
    endwhile()
    string(APPEND out ";\n\n")
    string(APPEND table "    EmbeddedFile{\"${included_as}\", {kText${count}, sizeof(kText${count}) - 1}},\n")
    math(EXPR count "${count} + 1")
  endforeach()
  string(APPEND out "constexpr std::array<EmbeddedFile, ${count}> kFiles = {\n${table}};\n\n}  // namespace\n\n")
  string(APPEND out "llvm::ArrayRef<EmbeddedFile> embedded_templates() { return kFiles; }\n\n}  // namespace tilewright\n")
  write_if_different("${DIRECTORY}/templates_embedded.cpp" "${out}")
elseif(WHAT STREQUAL "identity")
  read_list("${DIRECTORY}/identity_files.txt" names)
  set(lines "tilewright ${VERSION}\n")
  foreach(name IN LISTS names)
    file(SHA256 "${ROOT}/${name}" hash)
    string(APPEND lines "${hash} ${name}\n")
  endforeach()
  string(SHA256 identity "${lines}")
  write_if_different("${DIRECTORY}/build_identity.cpp"
"// Written by cmake/write_embedded.cmake. Do not edit.
#include \"codegen/embedded_templates.h\"

namespace tilewright {

llvm::StringRef build_identity() { return \"${identity}\"; }

}  // namespace tilewright
")
else()
  message(FATAL_ERROR "WHAT must be templates or identity, got '${WHAT}'")
endif()
