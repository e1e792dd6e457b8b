#include "http/head_scan.hpp"

namespace ate::http {

void HeadScan::reset() noexcept {
  seen_ = 0;
  lines_ = 0;
  line_length_ = 0;
  after_cr_ = false;
  reason_ = "";
}

HeadScan::State HeadScan::bad(const char* reason) noexcept {
  reason_ = reason;
  return State::Bad;
}

HeadScan::State HeadScan::feed(std::string_view head) noexcept {
  for (; seen_ < head.size(); ++seen_) {
    if (seen_ >= max_bytes_) {
      return State::TooLarge;
    }
    const auto c = static_cast<unsigned char>(head[seen_]);
    if (after_cr_) {
      if (c != '\n') {
        return bad("a line of the head ends with a bare CR");
      }
      after_cr_ = false;
      if (line_length_ == 0) {
        ++seen_;
        return lines_ == 0 ? bad("the request line is empty") : State::Complete;
      }
      ++lines_;
      line_length_ = 0;
      // The start line is not a header.
      if (lines_ > max_lines_ + 1) {
        return State::TooLarge;
      }
      continue;
    }
    if (c == '\r') {
      after_cr_ = true;
      continue;
    }
    if (c == '\n') {
      return bad("a line of the head ends with a bare LF");
    }
    if ((c < 0x20 && c != '\t') || c == 0x7f) {
      return bad("the head holds a control character");
    }
    if (line_length_ == 0 && (c == ' ' || c == '\t')) {
      return bad("a line of the head begins with a blank (folded headers are refused)");
    }
    ++line_length_;
  }
  return State::NeedMore;
}

}  // namespace ate::http
