#include "ate/core/containers.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "ate/util/log.hpp"

namespace ate::core {
namespace {

constexpr int kSignalBase = 128;
constexpr int kLastSignal = 64;

// The kernel's numbers of pause (x86-64) and ppoll (arm64, which has no pause). Everything is
// position independent; the loop is entered again when a signal ended the call.
#if defined(__aarch64__)
constexpr std::uint16_t kMachine = 183;
constexpr auto kCode = std::to_array<std::uint8_t>({
    0x00, 0x00, 0x80, 0xd2,  // mov x0, #0   no descriptors
    0x01, 0x00, 0x80, 0xd2,  // mov x1, #0
    0x02, 0x00, 0x80, 0xd2,  // mov x2, #0   for ever
    0x03, 0x00, 0x80, 0xd2,  // mov x3, #0
    0x28, 0x09, 0x80, 0xd2,  // mov x8, #73  ppoll
    0x01, 0x00, 0x00, 0xd4,  // svc #0
    0xfa, 0xff, 0xff, 0x17,  // b -24
});
#else
constexpr std::uint16_t kMachine = 62;
constexpr auto kCode = std::to_array<std::uint8_t>({
    0xb8, 0x22, 0x00, 0x00, 0x00,  // mov $34, %eax  pause
    0x0f, 0x05,                    // syscall
    0xeb, 0xf7,                    // jmp -9
});
#endif

/// Appends `value` in `bytes` bytes, lowest first.
void put(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) {
    out.push_back(static_cast<char>((value >> (8 * i)) & 0xffU));
  }
}

}  // namespace

ContainerEnd container_end(std::uint32_t wait_status) {
  const int signal = static_cast<int>(wait_status & 0x7fU);
  if (signal != 0) {
    return {.exit_code = kSignalBase + signal, .signal = signal};
  }
  return {.exit_code = static_cast<int>((wait_status >> 8U) & 0xffU), .signal = 0};
}

std::string end_words(int exit_code) {
  std::string text = "exited with code " + std::to_string(exit_code);
  if (exit_code > kSignalBase && exit_code <= kSignalBase + kLastSignal) {
    text += " (128 + signal " + std::to_string(exit_code - kSignalBase) + ")";
  }
  return text;
}

Result<std::string> choose_container(const std::vector<std::string>& names,
                                     const std::string& wanted) {
  if (wanted.empty() && names.size() == 1) {
    return names.front();
  }
  if (std::ranges::find(names, wanted) != names.end()) {
    return wanted;
  }
  std::string list;
  for (const std::string& name : names) {
    list += (list.empty() ? "" : ", ") + name;
  }
  if (wanted.empty()) {
    return fail(Error(Errc::InvalidValue, "the actor has several containers, name one: " + list)
                    .with_field("container"));
  }
  return fail(Error(Errc::InvalidValue,
                    "the actor has no container " + escape_text(wanted, 100) + ": " + list)
                  .with_field("container"));
}

std::string pause_program() {
  constexpr std::uint64_t kBase = 0x400000;
  constexpr int kHeader = 64;
  constexpr int kProgramHeader = 56;
  constexpr std::uint64_t kSize = kHeader + kProgramHeader + kCode.size();
  std::string out(
      "\x7f"
      "ELF\x02\x01\x01",
      7);  // 64 bit, lowest byte first, version 1
  out.append(9, '\0');
  put(out, 2, 2);  // an executable
  put(out, kMachine, 2);
  put(out, 1, 4);
  put(out, kBase + kHeader + kProgramHeader, 8);  // entry
  put(out, kHeader, 8);                           // program headers
  put(out, 0, 8);                                 // no sections
  put(out, 0, 4);
  put(out, kHeader, 2);
  put(out, kProgramHeader, 2);
  put(out, 1, 2);
  put(out, 0, 6);
  // One segment: the whole file, readable and executable.
  put(out, 1, 4);
  put(out, 5, 4);
  put(out, 0, 8);
  put(out, kBase, 8);
  put(out, kBase, 8);
  put(out, kSize, 8);
  put(out, kSize, 8);
  put(out, 0x1000, 8);
  for (const std::uint8_t byte : kCode) {
    out.push_back(static_cast<char>(byte));
  }
  return out;
}

}  // namespace ate::core
