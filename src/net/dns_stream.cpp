#include "net/dns_stream.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace ate::net {

namespace {

constexpr std::size_t kLength = 2;

bool would_block() {
  return errno == EAGAIN || errno == EINTR || errno == ENOTCONN;
}

}  // namespace

void DnsStream::put(std::string_view message) {
  out_.push_back(static_cast<char>(message.size() >> 8U));
  out_.push_back(static_cast<char>(message.size() & 0xffU));
  out_.append(message);
}

std::size_t DnsStream::wanted() const {
  if (in_.size() < kLength) {
    return kLength;
  }
  const unsigned high = static_cast<unsigned char>(in_[0]);
  return kLength + (high << 8U | static_cast<unsigned char>(in_[1]));
}

std::string_view DnsStream::message() const {
  return std::string_view(in_).substr(kLength, wanted() - kLength);
}

void DnsStream::next() {
  in_.clear();
}

DnsStream::Got DnsStream::work(int fd, std::size_t limit) {
  while (!out_.empty()) {
    const ssize_t sent = ::send(fd, out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && would_block()) {
      break;
    }
    if (sent < 0) {
      return Got::End;
    }
    out_.erase(0, static_cast<std::size_t>(sent));
  }
  std::array<char, 4096> buffer;
  while (in_.size() < kLength || in_.size() < wanted()) {
    // Never beyond the message: what follows stays with the kernel.
    const std::size_t room = std::min(buffer.size(), wanted() - in_.size());
    const ssize_t got = ::recv(fd, buffer.data(), room, MSG_DONTWAIT);
    if (got < 0 && would_block()) {
      return Got::Nothing;
    }
    if (got <= 0) {
      return Got::End;
    }
    in_.append(buffer.data(), static_cast<std::size_t>(got));
    if (in_.size() >= kLength && wanted() > limit + kLength) {
      return Got::End;
    }
  }
  return Got::Message;
}

}  // namespace ate::net
