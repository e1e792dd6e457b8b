#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ate/image/image.hpp"
#include "ate/util/log.hpp"
#include "image/limits.hpp"
#include "image/path.hpp"

namespace ate::image {

namespace {

/// A passwd file of a big image has a few hundred lines.
constexpr std::size_t kMaxDatabaseBytes = std::size_t{1} << 20U;
constexpr std::size_t kMaxGroups = 1024;

std::string show(std::string_view text) {
  return "'" + escape_text(text, 100) + "'";
}

std::unexpected<Error> invalid(const std::string& what) {
  return fail(Errc::InvalidValue, what);
}

// The file's text, or nothing when there is no regular file of that name in the image.
Result<std::optional<std::string>> read_database(int root, const std::string& path) {
  // O_PATH first: opening a FIFO or a device that an image put there would block or do something.
  Result<UniqueFd> place = open_in_root(root, path, O_PATH);
  if (!place) {
    const int why = place.error().sys_errno();
    if (why == ENOENT || why == ENOTDIR || why == ELOOP) {
      return std::nullopt;
    }
    return fail(std::move(place).error());
  }
  struct stat info{};
  if (::fstat(place->get(), &info) != 0) {
    return fail(Error::from_errno("looking at " + path, errno));
  }
  if (!S_ISREG(info.st_mode)) {
    return std::nullopt;
  }
  const std::string own = "/proc/self/fd/" + std::to_string(place->get());
  const UniqueFd file(::open(own.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) {
    return fail(Error::from_errno("opening the image's /" + path, errno));
  }
  std::string text(kMaxDatabaseBytes + 1, '\0');
  std::size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + filled, text.size() - filled);
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return fail(Error::from_errno("reading the image's /" + path, errno));
    }
    if (got == 0) {
      break;
    }
    filled += static_cast<std::size_t>(got);
  }
  if (filled > kMaxDatabaseBytes) {
    return invalid("the image's /" + path + " is larger than 1 MiB");
  }
  text.resize(filled);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(at + 1);
  }
}

std::optional<std::uint32_t> parse_id(std::string_view text) {
  std::uint32_t id = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (text.empty() || problem != std::errc() || end != text.data() + text.size() || id > kMaxId) {
    return std::nullopt;
  }
  return id;
}

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

struct Account {
  std::string name;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::string home;
};

// First line whose name or uid is `who`, as libc and runc read it.
std::optional<Account> find_account(std::string_view passwd, std::string_view who) {
  const std::optional<std::uint32_t> wanted = parse_id(who);
  for (const std::string_view line : split(passwd, '\n')) {
    const std::vector<std::string_view> fields = split(line, ':');
    if (fields.size() < 6 || fields[0].empty()) {
      continue;
    }
    const std::optional<std::uint32_t> uid = parse_id(fields[2]);
    const std::optional<std::uint32_t> gid = parse_id(fields[3]);
    if (uid && gid && (fields[0] == who || uid == wanted)) {
      return Account{std::string(fields[0]), *uid, *gid, std::string(fields[5])};
    }
  }
  return std::nullopt;
}

std::optional<std::uint32_t> find_group(std::string_view group, std::string_view who) {
  const std::optional<std::uint32_t> wanted = parse_id(who);
  for (const std::string_view line : split(group, '\n')) {
    const std::vector<std::string_view> fields = split(line, ':');
    if (fields.size() < 3 || fields[0].empty()) {
      continue;
    }
    const std::optional<std::uint32_t> gid = parse_id(fields[2]);
    if (gid && (fields[0] == who || gid == wanted)) {
      return gid;
    }
  }
  return std::nullopt;
}

std::vector<std::uint32_t> groups_of(std::string_view group, std::string_view name,
                                     std::uint32_t primary) {
  std::vector<std::uint32_t> gids;
  for (const std::string_view line : split(group, '\n')) {
    const std::vector<std::string_view> fields = split(line, ':');
    if (fields.size() < 4) {
      continue;
    }
    const std::optional<std::uint32_t> gid = parse_id(fields[2]);
    const std::vector<std::string_view> members = split(fields[3], ',');
    if (gid && *gid != primary && std::ranges::find(members, name) != members.end() &&
        std::ranges::find(gids, *gid) == gids.end() && gids.size() < kMaxGroups) {
      gids.push_back(*gid);
    }
  }
  return gids;
}

Status set_user(User& user, std::optional<Account>& account, std::string_view who,
                const std::optional<std::string>& passwd) {
  account = passwd ? find_account(*passwd, who) : std::nullopt;
  if (account) {
    user.uid = account->uid;
    user.gid = account->gid;
    const bool usable = account->home.starts_with('/') && account->home.size() < kMaxPathBytes;
    user.home = usable ? account->home : "/";
    return {};
  }
  const std::optional<std::uint32_t> uid = parse_id(who);
  if (uid) {
    user.uid = *uid;
    return {};
  }
  if (is_number(who)) {
    return invalid("user " + show(who) + " is above 2147483647");
  }
  return invalid("user " + show(who) +
                 (passwd ? " is not in the image's /etc/passwd"
                         : " can't be looked up: the image has no /etc/passwd"));
}

Status set_group(User& user, std::string_view who, const std::optional<std::string>& group) {
  std::optional<std::uint32_t> gid = group ? find_group(*group, who) : std::nullopt;
  if (!gid) {
    gid = parse_id(who);
  }
  if (!gid && is_number(who)) {
    return invalid("group " + show(who) + " is above 2147483647");
  }
  if (!gid) {
    return invalid("group " + show(who) +
                   (group ? " is not in the image's /etc/group"
                          : " can't be looked up: the image has no /etc/group"));
  }
  user.gid = *gid;
  return {};
}

}  // namespace

Result<User> resolve_user(const std::string& rootfs, const std::string& text) {
  const UniqueFd root(::open(rootfs.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root) {
    return fail(Error::from_errno("opening the image's root", errno));
  }
  const std::size_t colon = text.find(':');
  const std::string who = text.substr(0, colon).empty() ? "0" : text.substr(0, colon);
  const std::string group_name = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (text.size() > 256 || group_name.contains(':') || text == ":") {
    return invalid("user " + show(text) + " is not uid, name, uid:gid or name:group");
  }
  ATE_ASSIGN(const std::optional<std::string> passwd, read_database(root.get(), "etc/passwd"));
  ATE_ASSIGN(const std::optional<std::string> group, read_database(root.get(), "etc/group"));
  User user;
  user.home = "/";
  std::optional<Account> account;
  ATE_TRY(set_user(user, account, who, passwd));
  if (!group_name.empty()) {
    // A group that was named is the only one, as in Docker and runc.
    ATE_TRY(set_group(user, group_name, group));
  } else if (account && group) {
    user.additional_gids = groups_of(*group, account->name, user.gid);
  }
  return user;
}

}  // namespace ate::image
