// C++20 handles over tilewright.h: move-only, standard library only, errors as exceptions of type tilewright::Error.
#pragma once

#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tilewright.h"

namespace tilewright {

class Error : public std::runtime_error {
 public:
  Error(tw_status status, const std::string& message) : std::runtime_error(message), status_(status) {}
  tw_status status() const noexcept { return status_; }

 private:
  tw_status status_;
};

namespace detail {

// `error` by reference: arguments are evaluated in any order, and the call that gives `status` also sets it.
inline void check(tw_status status, tw_error*& error) {
  if (status == TW_OK) return;
  const std::string message = error ? tw_error_message(error) : "unknown error";
  tw_error_destroy(error);
  throw Error(status, message);
}

template <auto kDestroy>
struct Destroyer {
  template <typename T>
  void operator()(T* handle) const {
    kDestroy(handle);
  }
};

}  // namespace detail

// A validated operator graph.
class Graph {
 public:
  static Graph from_json(std::string_view json) {
    tw_graph* graph = nullptr;
    tw_error* error = nullptr;
    detail::check(tw_graph_from_json(json.data(), json.size(), &graph, &error), error);
    return Graph(graph);
  }
  static Graph from_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw Error(TW_IO, path + ": cannot be read");
    return from_json(std::string(std::istreambuf_iterator<char>(file), {}));
  }
  std::string signature() const { return tw_graph_signature(handle_.get()); }
  const tw_graph* get() const { return handle_.get(); }

 private:
  explicit Graph(tw_graph* graph) : handle_(graph) {}
  std::unique_ptr<tw_graph, detail::Destroyer<&tw_graph_destroy>> handle_;
};

// Compiled kernels and how to launch them.
class Program {
 public:
  std::size_t kernel_count() const { return tw_program_kernel_count(handle_.get()); }
  std::string kernel_name(std::size_t i) const { return tw_program_kernel_name(handle_.get(), i); }
  std::string kernel_source(std::size_t i) const { return tw_program_kernel_source(handle_.get(), i); }
  std::string kernel_origin(std::size_t i) const { return tw_program_kernel_origin(handle_.get(), i); }

  // "exact", "bucket", "nearest", "other device" or "none": which tuning record a launch with these dims goes by; and its path, "" for
  // none.
  std::string record_match(std::span<const std::int64_t> dims = {}) const { return tw_program_record_match(handle_.get(), data(dims)); }
  std::string record_path(std::span<const std::int64_t> dims = {}) const {
    const char* path = tw_program_record_path(handle_.get(), data(dims));
    return path ? path : "";
  }

  std::size_t workspace_bytes(std::span<const std::int64_t> dims = {}) const {
    std::size_t bytes = 0;
    tw_error* error = nullptr;
    detail::check(tw_program_workspace_bytes(handle_.get(), data(dims), &bytes, &error), error);
    return bytes;
  }
  void initialize_workspace(void* workspace, std::span<const std::int64_t> dims = {}, void* stream = nullptr) {
    tw_error* error = nullptr;
    detail::check(tw_program_initialize_workspace(handle_.get(), workspace, data(dims), stream, &error), error);
  }
  // Device pointers in the order of the description.
  void launch(std::span<const void* const> inputs, std::span<void* const> outputs, void* workspace = nullptr,
              std::span<const std::int64_t> dims = {}, void* stream = nullptr) {
    tw_error* error = nullptr;
    detail::check(tw_program_launch(handle_.get(), inputs.data(), inputs.size(), outputs.data(), outputs.size(), workspace, data(dims),
                                    stream, &error),
                  error);
  }
  tw_program* get() const { return handle_.get(); }

 private:
  friend class Context;
  explicit Program(tw_program* program) : handle_(program) {}
  static const std::int64_t* data(std::span<const std::int64_t> dims) { return dims.empty() ? nullptr : dims.data(); }
  std::unique_ptr<tw_program, detail::Destroyer<&tw_program_destroy>> handle_;
};

// The kernel store and the device.
class Context {
 public:
  Context() : Context(tw_context_options{sizeof(tw_context_options), nullptr, 0, 0}) {}
  explicit Context(const tw_context_options& options) {
    tw_context* context = nullptr;
    tw_error* error = nullptr;
    detail::check(tw_context_create(&options, &context, &error), error);
    handle_.reset(context);
  }
  // target "": the architecture of the current device.
  Program compile(const Graph& graph, const std::string& target = "") {
    tw_program* program = nullptr;
    tw_error* error = nullptr;
    detail::check(tw_program_create(handle_.get(), graph.get(), target.empty() ? nullptr : target.c_str(), &program, &error), error);
    return Program(program);
  }

 private:
  std::unique_ptr<tw_context, detail::Destroyer<&tw_context_destroy>> handle_;
};

}  // namespace tilewright
