/* The C interface from C11: a description in a string, compiled for two architectures into memory. Needs NVRTC and no GPU. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/api/tilewright.h"

static const char kDescription[] =
    "{\"name\": \"bias_gelu_softmax\","
    " \"inputs\": {\"x\": {\"dtype\": \"f16\", \"shape\": [\"N\", 1024]}, \"b\": {\"dtype\": \"f16\", \"shape\": [1024]}},"
    " \"dims\": {\"N\": {\"default\": 128, \"min\": 1, \"max\": 65536}},"
    " \"ops\": [{\"op\": \"map\", \"in\": [\"x\", \"b\"], \"out\": \"h\", \"expr\": \"gelu(x + b)\"},"
    "           {\"op\": \"softmax\", \"in\": [\"h\"], \"out\": \"y\", \"axis\": -1}],"
    " \"outputs\": [\"y\"]}";

/* Prints the error, frees it and gives the exit status: 77 for what this machine lacks, else 1. */
static int report(tw_error* error) {
  const int status = tw_error_status(error) == TW_MISSING ? 77 : 1;
  fprintf(stderr, "%s\n", tw_error_message(error));
  tw_error_destroy(error);
  return status;
}

static int compile(tw_context* context, const tw_graph* graph, const char* target) {
  tw_program* program = NULL;
  tw_error* error = NULL;
  if (tw_program_create(context, graph, target, &program, &error) != TW_OK) return report(error);

  for (size_t i = 0; i < tw_program_kernel_count(program); ++i) {
    printf("%s: %s, %s, key %.16s\n", target, tw_program_kernel_name(program, i), tw_program_kernel_origin(program, i),
           tw_program_kernel_key(program, i));
  }
  const int64_t dims[] = {4096}; /* one value for each named dimension: N */
  size_t workspace_bytes = 0;
  const tw_status status = tw_program_workspace_bytes(program, dims, &workspace_bytes, &error);
  if (status == TW_OK) printf("%s = %" PRId64 ": %zu bytes of workspace\n", tw_program_dim_name(program, 0), dims[0], workspace_bytes);
  tw_program_destroy(program);
  return status == TW_OK ? 0 : report(error);
}

int main(void) {
  tw_error* error = NULL;
  tw_context* context = NULL;
  const tw_context_options options = {.size = sizeof options, .cache_directory = ""}; /* "": keep kernels in memory only */
  if (tw_context_create(&options, &context, &error) != TW_OK) return report(error);

  tw_graph* graph = NULL;
  int result = 0;
  if (tw_graph_from_json(kDescription, strlen(kDescription), &graph, &error) != TW_OK) {
    result = report(error);
  } else {
    printf("signature %s\n", tw_graph_signature(graph));
    result = compile(context, graph, "sm_90a");
    if (result == 0) result = compile(context, graph, "sm_100a");
  }
  tw_graph_destroy(graph);
  tw_context_destroy(context);
  return result;
}
