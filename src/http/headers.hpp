#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "ate/http/message.hpp"

namespace ate::http {

/// ASCII case-insensitive equality.
[[nodiscard]] bool iequals(std::string_view a, std::string_view b) noexcept;

/// `text` without blanks and tabs at either end.
[[nodiscard]] std::string_view trim(std::string_view text) noexcept;

/// True for the headers that belong to one connection (RFC 9110 7.6.1), for Content-Length, which
/// is written anew from the framing, and for what the Connection header names. Host never is.
[[nodiscard]] bool is_hop_by_hop(const Headers& headers, std::string_view name);

/// Appends `name: value` and CRLF; control characters in the value become blanks, so that nothing
/// can add a line.
void append_header(std::string& out, std::string_view name, std::string_view value);

void append_decimal(std::string& out, std::uint64_t value);

/// The line in front of a chunk of `size` bytes, written into `room`.
[[nodiscard]] std::string_view chunk_head(std::array<char, 20>& room, std::size_t size) noexcept;

/// Reason phrase of the status line; empty for numbers without one.
[[nodiscard]] std::string_view reason_phrase(int status) noexcept;

}  // namespace ate::http
