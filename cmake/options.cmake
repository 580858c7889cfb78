# Compile options of our own code, as the interface target tw_options.

# Each compiler version has false positives of its own, so a warning is an error only with the two compilers that the
# project is kept clean for; with any other it stays a warning.
set(checked_compiler OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION MATCHES "^12\\.")
  set(checked_compiler ON)
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION MATCHES "^19\\.")
  set(checked_compiler ON)
endif()
option(TILEWRIGHT_WERROR "Treat warnings in our code as errors" ${checked_compiler})

add_library(tw_options INTERFACE)
target_compile_features(tw_options INTERFACE cxx_std_20)
target_include_directories(tw_options INTERFACE "${PROJECT_SOURCE_DIR}")
target_compile_definitions(tw_options INTERFACE "TILEWRIGHT_VERSION=\"${PROJECT_VERSION}\"")
target_compile_options(tw_options INTERFACE
  -Wall -Wextra
  # Keeps the checkout's path out of the binaries (asserts, debug information): same sources, same bytes.
  "-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # libstdc++'s own string concatenation sets off these at -O2 and above (GCC bugs 105651, 105329, 105562), and Eigen's
  # and LLVM's inlined small buffers the last two.
  target_compile_options(tw_options INTERFACE
    -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds -Wno-maybe-uninitialized)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC's unique symbols cannot be made local in libtilewright.a, and would be shared with a host program's copy.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fno-gnu-unique>)
endif()
if(TILEWRIGHT_WERROR)
  target_compile_options(tw_options INTERFACE -Werror)
endif()

# Only libc, libm and libstdc++ may be loaded dynamically.
target_link_options(tw_options INTERFACE -static-libgcc -Wl,--as-needed)

if(TILEWRIGHT_SANITIZE)
  target_compile_options(tw_options INTERFACE "-fsanitize=${TILEWRIGHT_SANITIZE}" -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(tw_options INTERFACE "-fsanitize=${TILEWRIGHT_SANITIZE}")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # -fsanitize adds branches that make GCC 12 see uses of uninitialised and null values that are not there.
    target_compile_options(tw_options INTERFACE -Wno-error)
  endif()
endif()
