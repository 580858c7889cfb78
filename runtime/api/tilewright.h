/* Tilewright's C interface: the only exported symbols of libtilewright. Works from C11 and any C++.
 *
 * Life cycle: context -> graph (from a JSON description) -> program (compiled, or found in the store) -> launch.
 * Every function that can fail returns a tw_status and, when `error` is not NULL, an error object to be freed with tw_error_destroy.
 * Thread-safety: a context and a program may be used from several threads at once; a graph is immutable. Handles are destroyed by the
 * caller, never while another thread uses them.
 */
#ifndef TILEWRIGHT_H
#define TILEWRIGHT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TW_API __attribute__((visibility("default")))
#else
#define TW_API
#endif

#define TW_VERSION_MAJOR 0
#define TW_VERSION_MINOR 1

typedef enum tw_status {
  TW_OK = 0,
  TW_INVALID_ARGUMENT = 1,   /* bad input: description, shape, target, launch arguments */
  TW_UNSUPPORTED = 2,        /* valid, but not offered; the message names what is */
  TW_MISSING = 3,            /* the machine lacks the driver, a GPU or NVRTC */
  TW_COMPILE_FAILED = 4,     /* NVRTC refused generated source */
  TW_DRIVER = 5,             /* a CUDA driver call failed */
  TW_OUT_OF_MEMORY = 6,      /* device memory */
  TW_IO = 7,                 /* a file could not be read or written */
  TW_COMPILE_IN_CAPTURE = 8, /* a kernel would have to be built while the stream is captured */
  TW_INTERNAL = 9            /* a bug of ours */
} tw_status;

typedef struct tw_error tw_error;
typedef struct tw_context tw_context;
typedef struct tw_graph tw_graph;
typedef struct tw_program tw_program;

/* "0.1.0" */
TW_API const char* tw_version(void);

TW_API tw_status tw_error_status(const tw_error* error);
/* One sentence: what was seen, what was wanted. Owned by the error. */
TW_API const char* tw_error_message(const tw_error* error);
TW_API void tw_error_destroy(tw_error* error);

typedef enum tw_log_level { TW_LOG_ERROR = 0, TW_LOG_WARNING = 1, TW_LOG_INFO = 2, TW_LOG_DEBUG = 3 } tw_log_level;
/* `message` is one text without a newline at its end, valid during the call. */
typedef void (*tw_log_callback)(tw_log_level level, const char* message, void* user);
/* Sends what the library has to say, up to `most`, to `callback`; NULL turns the log off. Until this is called, the variable TILEWRIGHT_LOG
 * decides (error, warning, info or debug: lines on stderr; unset: nothing). For the whole process. Calls come from any thread, one at a
 * time; the callback must not call into the library. */
TW_API void tw_set_log(tw_log_level most, tw_log_callback callback, void* user);

/* Options of a context; zero-initialise and set `size` to sizeof(tw_context_options). */
typedef struct tw_context_options {
  size_t size;
  const char* cache_directory; /* NULL: TILEWRIGHT_CACHE_DIR, else the XDG cache directory; "": memory only */
  int prepare_compiler; /* not 0: NVRTC is loaded and warmed on a thread of its own, so that a first compilation is 15 to 20 ms shorter */
  int ignore_records;   /* not 0: programs are built as if no tuning record was there */
} tw_context_options;

/* What the tuner found (`tilewright tune`) is read when a program is made, from TILEWRIGHT_RECORDS_DIR, else from records/ in the store's
 * directory, and from records/ in each of the store's layers. What is passed over (a file that is damaged, a record of another version of a
 * template) is said by the log as a warning. */

/* A context holds the kernel store and, once a GPU is needed, the driver. It starts on a machine that has neither driver nor NVRTC.
 * `options` may be NULL. */
TW_API tw_status tw_context_create(const tw_context_options* options, tw_context** context, tw_error** error);
TW_API void tw_context_destroy(tw_context* context);

/* Parses and validates a JSON description of `length` bytes (docs/descriptions.md). Errors give line, column, op and operand. */
TW_API tw_status tw_graph_from_json(const char* json, size_t length, tw_graph** graph, tw_error** error);
TW_API void tw_graph_destroy(tw_graph* graph);
/* 32 hexadecimal digits: descriptions that mean the same have the same signature. Owned by the graph. */
TW_API const char* tw_graph_signature(const tw_graph* graph);

/* Compiles the graph for `target` ("sm_90a", "sm_100a", ...), or takes its kernels from the store. target NULL: the architecture of the
 * device whose CUDA context is current on this thread, else device 0. Needs no GPU when a target is given; such a program can be launched
 * once a device of that architecture is current.
 *
 * Where tuning records exist for the graph, the kernels are those of the records' configs: one set for each config, of which a launch takes
 * the one that suits its dims best. Records of the device count when target is NULL, else those of any device of the target. */
TW_API tw_status tw_program_create(tw_context* context, const tw_graph* graph, const char* target, tw_program** program, tw_error** error);
TW_API void tw_program_destroy(tw_program* program);

/* Which tuning record a launch with these dims (NULL: the defaults) goes by: "exact" (it was tuned at these sizes), "bucket" (at others
 * that tuning puts into the same bucket), "nearest" (at others), "other device" (there are only records of others, which are not used) or
 * "none". Static. */
TW_API const char* tw_program_record_match(const tw_program* program, const int64_t* dims);
/* Path of that record's file; NULL where none is used. Owned by the program. */
TW_API const char* tw_program_record_path(const tw_program* program, const int64_t* dims);

/* The kernels that a launch with the default dims takes. */
TW_API size_t tw_program_kernel_count(const tw_program* program);
/* Entry name, generated CUDA C++ and store key of kernel `index`; NULL when there is none. Owned by the program. */
TW_API const char* tw_program_kernel_name(const tw_program* program, size_t index);
TW_API const char* tw_program_kernel_source(const tw_program* program, size_t index);
TW_API const char* tw_program_kernel_key(const tw_program* program, size_t index);
/* Where the kernel came from: "compiled", "memory", "directory" or "layer". */
TW_API const char* tw_program_kernel_origin(const tw_program* program, size_t index);

/* Number of named dimensions, and their names by index, in declaration order. Launches pass one value for each. */
TW_API size_t tw_program_dim_count(const tw_program* program);
TW_API const char* tw_program_dim_name(const tw_program* program, size_t index);

/* Bytes of device memory a launch needs as scratch, for these dimension values (dims NULL: the defaults). */
TW_API tw_status tw_program_workspace_bytes(const tw_program* program, const int64_t* dims, size_t* bytes, tw_error** error);
/* Zeroes the parts of a workspace that kernels expect zero, on `stream` (a CUstream). Once after allocating it, again whenever dims differ
 * from those of the call before (its buffers move, and other kernels may be taken), and after a launch that was aborted. A workspace serves
 * one stream at a time. */
TW_API tw_status tw_program_initialize_workspace(tw_program* program, void* workspace, const int64_t* dims, void* stream, tw_error** error);

/* Enqueues all kernels of the program on `stream` (a CUstream of the current context; NULL: the default stream). inputs and outputs are
 * device pointers in the order of the description; workspace is 256-byte aligned and may be NULL when its size is 0. Allocates nothing,
 * waits for nothing, and may be captured in a CUDA graph. The first launch on a device loads the program's modules: make it before
 * capturing, or call tw_program_load. */
TW_API tw_status tw_program_launch(tw_program* program, const void* const* inputs, size_t input_count, void* const* outputs,
                                   size_t output_count, void* workspace, const int64_t* dims, void* stream, tw_error** error);
/* Loads the program's modules on the current device now. */
TW_API tw_status tw_program_load(tw_program* program, tw_error** error);

#ifdef __cplusplus
}
#endif
#endif
