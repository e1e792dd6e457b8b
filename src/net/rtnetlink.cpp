#include "net/rtnetlink.hpp"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace ate::net {

namespace {

constexpr std::size_t kAlign = 4;

void write_u16(std::vector<unsigned char>& bytes, std::size_t at, std::size_t value) {
  const auto narrow = static_cast<std::uint16_t>(value);
  std::memcpy(bytes.data() + at, &narrow, sizeof narrow);
}

}  // namespace

void NetlinkBatch::append(const void* data, std::size_t size) {
  const auto* from = static_cast<const unsigned char*>(data);
  bytes_.insert(bytes_.end(), from, from + size);
  bytes_.resize((bytes_.size() + kAlign - 1) / kAlign * kAlign);
}

void NetlinkBatch::close_request() {
  if (!names_.empty()) {
    const auto length = static_cast<std::uint32_t>(bytes_.size() - request_);
    std::memcpy(bytes_.data() + request_, &length, sizeof length);  // nlmsg_len comes first
  }
}

void NetlinkBatch::begin(std::uint16_t type, std::uint16_t flags, std::string what) {
  close_request();
  request_ = bytes_.size();
  names_.push_back(std::move(what));
  nlmsghdr header{};
  header.nlmsg_type = type;
  header.nlmsg_flags = static_cast<std::uint16_t>(flags | NLM_F_REQUEST | NLM_F_ACK);
  header.nlmsg_seq = static_cast<std::uint32_t>(names_.size());
  put(header);
}

void NetlinkBatch::attribute(std::uint16_t type, const void* data, std::size_t size) {
  rtattr header{};
  header.rta_type = type;
  header.rta_len = static_cast<std::uint16_t>(sizeof header + size);
  put(header);
  append(data, size);
}

void NetlinkBatch::attribute(std::uint16_t type, std::string_view text) {
  const std::string terminated(text);
  attribute(type, terminated.c_str(), terminated.size() + 1);
}

void NetlinkBatch::attribute(std::uint16_t type, std::uint32_t value) {
  attribute(type, &value, sizeof value);
}

std::size_t NetlinkBatch::begin_nested(std::uint16_t type) {
  const std::size_t at = bytes_.size();
  rtattr header{};
  header.rta_type = static_cast<std::uint16_t>(type | NLA_F_NESTED);
  put(header);
  return at;
}

void NetlinkBatch::end_nested(std::size_t at) {
  write_u16(bytes_, at, bytes_.size() - at);  // rta_len comes first
}

Result<UniqueFd> open_rtnetlink() {
  UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!fd) {
    return fail(Error::from_errno("open a netlink socket", errno));
  }
  // The kernel answers before sendmsg returns; a bound all the same, so that nothing waits for
  // ever.
  const timeval limit{5, 0};
  static_cast<void>(::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
  return fd;
}

namespace {

Status send_all(const UniqueFd& socket, const std::vector<unsigned char>& bytes) {
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  if (::sendto(socket.get(), bytes.data(), bytes.size(), 0,
               reinterpret_cast<const sockaddr*>(&kernel), sizeof kernel) < 0) {
    return fail(Error::from_errno("send a netlink request", errno));
  }
  return {};
}

}  // namespace

Status query(const UniqueFd& socket, NetlinkBatch& batch, std::string& answer) {
  batch.close_request();
  ATE_TRY(send_all(socket, batch.bytes_));
  alignas(nlmsghdr) std::array<char, 16384> buffer{};
  ssize_t got = -1;
  do {
    got = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
  } while (got < 0 && errno == EINTR);
  nlmsghdr header{};
  if (got < static_cast<ssize_t>(sizeof header)) {
    return fail(Error::from_errno("receive a netlink answer", got < 0 ? errno : EIO));
  }
  std::memcpy(&header, buffer.data(), sizeof header);
  if (header.nlmsg_type == NLMSG_ERROR) {
    nlmsgerr error{};
    std::memcpy(&error, buffer.data() + sizeof header, sizeof error);
    return fail(Error::from_errno(batch.names_.front(), -error.error));
  }
  const std::size_t end = std::min<std::size_t>(header.nlmsg_len, static_cast<std::size_t>(got));
  answer.assign(buffer.data() + sizeof header, end - std::min(end, sizeof header));
  return {};
}

Status transact(const UniqueFd& socket, NetlinkBatch& batch) {
  batch.close_request();
  ATE_TRY(send_all(socket, batch.bytes_));
  Status outcome;
  alignas(nlmsghdr) std::array<unsigned char, 16384> buffer{};
  for (std::size_t pending = batch.names_.size(); pending > 0;) {
    const ssize_t got = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return fail(Error::from_errno("receive a netlink answer", errno));
    }
    std::size_t at = 0;
    while (at + sizeof(nlmsghdr) <= static_cast<std::size_t>(got)) {
      nlmsghdr header{};
      std::memcpy(&header, buffer.data() + at, sizeof header);
      if (header.nlmsg_len < sizeof header) {
        break;
      }
      if (header.nlmsg_type == NLMSG_ERROR && header.nlmsg_seq >= 1 &&
          header.nlmsg_seq <= batch.names_.size()) {
        nlmsgerr error{};
        std::memcpy(&error, buffer.data() + at + sizeof header, sizeof error);
        --pending;
        if (error.error != 0 && outcome) {
          outcome = fail(Error::from_errno(batch.names_[header.nlmsg_seq - 1], -error.error));
        }
      }
      at += (header.nlmsg_len + kAlign - 1) / kAlign * kAlign;
    }
  }
  return outcome;
}

}  // namespace ate::net
