#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "ate/util/result.hpp"

/// One more process in a container of a running actor: what is asked for, what came of it.
namespace ate::core {

/// Not interactive.
struct ExecPlan {
  std::string container;  // "" = the only one
  std::vector<std::string> argv;
  std::vector<std::string> env;  // "K=V", over the container's
  std::string working_dir;       // "" = the container's
  std::string user;              // "" = the container's; else as in an image: name or uid[:group]
  std::string input;             // its standard input
  std::chrono::milliseconds timeout{60'000};
  std::size_t output_limit = std::size_t{1} << 20U;  // of each stream
};

struct ExecOutput {
  int exit_code = 0;  // 128 + signal when one ended it
  bool timed_out = false;
  std::string out;
  std::string err;
  bool out_truncated = false;
  bool err_truncated = false;
};

/// Whether bytes can go into a JSON string as they are: well-formed UTF-8 without NUL.
[[nodiscard]] bool is_plain_text(const std::string& bytes);
/// Without the sequence at the end that a cut left unfinished.
[[nodiscard]] std::string trim_cut(std::string bytes);

/// RFC 4648, with padding.
[[nodiscard]] std::string base64_encode(const std::string& bytes);
/// Strict: the alphabet, padding and length of RFC 4648, no white space. InvalidValue.
[[nodiscard]] Result<std::string> base64_decode(const std::string& text);

}  // namespace ate::core
