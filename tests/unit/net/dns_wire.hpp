#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ate::test {

inline std::string u16(unsigned value) {
  return {static_cast<char>(value >> 8U), static_cast<char>(value & 0xffU)};
}

inline std::string dns_header(unsigned id, unsigned flags, unsigned questions, unsigned answers,
                              unsigned authorities, unsigned additionals) {
  return u16(id) + u16(flags) + u16(questions) + u16(answers) + u16(authorities) + u16(additionals);
}

/// "www.example" as labels with the root.
inline std::string dns_name(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::string_view label = text.substr(0, text.find('.'));
    out.push_back(static_cast<char>(label.size()));
    out.append(label);
    text.remove_prefix(std::min(text.size(), label.size() + 1));
  }
  out.push_back('\0');
  return out;
}

inline std::string dns_question(std::string_view name, unsigned type) {
  return dns_name(name) + u16(type) + u16(1);
}

inline std::string dns_opt(unsigned size, unsigned flags) {
  return std::string(1, '\0') + u16(41) + u16(size) + u16(0) + u16(flags) + u16(0);
}

inline std::string dns_query(std::string_view name, unsigned type, unsigned id) {
  return dns_header(id, 0x0100, 1, 0, 0, 0) + dns_question(name, type);
}

/// A record whose name is a pointer to the question's.
inline std::string dns_record(unsigned type, std::string_view data) {
  return u16(0xc00c) + u16(type) + u16(1) + u16(0) + u16(60) +
         u16(static_cast<unsigned>(data.size())) + std::string(data);
}

}  // namespace ate::test
