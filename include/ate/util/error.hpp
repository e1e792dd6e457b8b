#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ate {

/// Closed set of error kinds. Each maps 1:1 to a problem slug, title and HTTP status in
/// `api/problems.cpp`; a new kind is added there, here and in docs/errors.md together.
enum class Errc : std::uint8_t {
  // 400
  Malformed,
  UnknownField,
  InvalidType,
  // 404
  NotFound,
  NoSuchRoute,
  // 405, 406, 408
  MethodNotAllowed,
  RequestTimeout,
  // 409
  AlreadyExists,
  StateConflict,
  OperationInProgress,
  FileOwned,
  InUse,
  SnapshotCorrupt,
  SnapshotIncompatible,
  IdempotencyKeyInUse,
  // 412, 413, 415
  PreconditionFailed,
  BodyTooLarge,
  UnsupportedMediaType,
  // 422
  InvalidValue,
  NotYetSupported,
  BudgetTooSmall,
  NeverFits,
  ImageInvalid,
  AssetInvalid,
  IdempotencyKeyReused,
  SecretUnusable,
  // 426, 429, 431
  UpgradeRequired,
  TooManyRequests,
  HeaderTooLarge,
  // 500
  Internal,
  RuntimeFailed,  // runsc or the VMM failed; message carries its bounded output
  NotReady,       // 504: the readiness gate did not open within its timeout
  RestoreFailed,
  // 502, 503, 504
  UpstreamFailed,
  NoFreeWorker,
  Unavailable,  // starting, shutting down, runtime refused: detail says which
  TooManyConnections,
  DeadlineExceeded,
  Cancelled,
  // 507
  DiskFull,
};

/// One finding about an input; validation returns all of them at once.
struct Problem {
  Errc code = Errc::InvalidValue;
  std::string field;         // path such as `spec.containers[0].image`
  std::string detail;        // one sentence for the person who wrote the input
  std::uint32_t line = 0;    // 1-based; 0 = unknown
  std::uint32_t column = 0;  // 1-based; 0 = unknown
  std::string file;          // path as configured; empty = not from a file
};

/// Value of an extension member of a problem document (`budgetBytes`, `operation`, ...).
using ErrorValue = std::variant<std::int64_t, std::string, std::vector<std::string>>;

/// An error travelling up as a value. `message` is written for the caller of the API; context is
/// prepended on the way. It never carries secrets or unescaped guest bytes.
class Error {
 public:
  Error(Errc code, std::string message);
  Error(Errc code, std::string message, int sys_errno);

  [[nodiscard]] Errc code() const noexcept { return code_; }

  [[nodiscard]] const std::string& message() const noexcept { return message_; }

  /// errno of the failed system call; 0 when there was none.
  [[nodiscard]] int sys_errno() const noexcept { return sys_errno_; }

  [[nodiscard]] const std::string& field() const noexcept { return field_; }

  [[nodiscard]] const std::vector<Problem>& problems() const noexcept { return problems_; }

  [[nodiscard]] const std::vector<std::pair<std::string, ErrorValue>>& members() const noexcept {
    return members_;
  }

  /// Prepends `text: `; returns *this so that it chains on the way up.
  [[nodiscard]] Error context(std::string_view text) &&;
  [[nodiscard]] Error with_field(std::string field) &&;
  [[nodiscard]] Error with_code(Errc code) &&;
  [[nodiscard]] Error with(std::string key, ErrorValue value) &&;
  [[nodiscard]] Error with_problems(std::vector<Problem> problems) &&;

  /// From the current errno (or `err`): ENOSPC and EDQUOT become DiskFull, everything else `code`.
  static Error from_errno(std::string what, int err, Errc code);
  static Error from_errno(std::string what, int err);

 private:
  Errc code_;
  int sys_errno_ = 0;
  std::string message_;
  std::string field_;
  std::vector<Problem> problems_;
  std::vector<std::pair<std::string, ErrorValue>> members_;
};

}  // namespace ate
