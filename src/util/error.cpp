#include "ate/util/error.hpp"

#include <cerrno>
#include <cstring>

namespace ate {

namespace {

std::string errno_text(int err) {
  char buffer[128];
  return std::string(strerror_r(err, buffer, sizeof buffer));
}

}  // namespace

Error::Error(Errc code, std::string message) : code_(code), message_(std::move(message)) {}

Error::Error(Errc code, std::string message, int sys_errno)
    : code_(code), sys_errno_(sys_errno), message_(std::move(message)) {}

Error Error::context(std::string_view text) && {
  message_.insert(0, std::string(text) + ": ");
  return std::move(*this);
}

Error Error::with_field(std::string field) && {
  field_ = std::move(field);
  return std::move(*this);
}

Error Error::with_code(Errc code) && {
  code_ = code;
  return std::move(*this);
}

Error Error::with(std::string key, ErrorValue value) && {
  members_.emplace_back(std::move(key), std::move(value));
  return std::move(*this);
}

Error Error::with_problems(std::vector<Problem> problems) && {
  problems_ = std::move(problems);
  return std::move(*this);
}

Error Error::from_errno(std::string what, int err, Errc code) {
  const Errc kind = (err == ENOSPC || err == EDQUOT) ? Errc::DiskFull : code;
  return Error(kind, std::move(what) + ": " + errno_text(err), err);
}

Error Error::from_errno(std::string what, int err) {
  return from_errno(std::move(what), err, Errc::Internal);
}

}  // namespace ate
