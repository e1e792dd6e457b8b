#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "ate/image/image.hpp"
#include "ate/util/log.hpp"
#include "image/limits.hpp"

namespace ate::image {

namespace {

constexpr std::string_view kUse =
    "use oci:/path[:tag], oci-archive:/path.tar[:tag] or docker-archive:/path.tar[:tag], made by "
    "examples/make-oci or by "
    "`skopeo copy <source> oci-archive:/path.tar:tag`";

struct TransportName {
  std::string_view name;
  Reference::Transport transport;
};

constexpr std::array kTransports = {
    TransportName{"oci", Reference::Transport::OciDirectory},
    TransportName{"oci-archive", Reference::Transport::OciArchive},
    TransportName{"docker-archive", Reference::Transport::DockerArchive},
};

std::string quoted(const std::string& text) {
  return "'" + escape_text(text, 200) + "'";
}

// What ref.name may hold: tags, and whole references as podman writes them.
bool is_tag(std::string_view tag) {
  if (tag.empty() || tag.size() > 255) {
    return false;
  }
  return std::ranges::all_of(tag, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._-/:+@").contains(c);
  });
}

Status check_path(const std::string& text, const std::string& path) {
  if (!path.starts_with('/')) {
    return fail(Errc::InvalidValue,
                quoted(text) + ": the path must be absolute; " + std::string(kUse));
  }
  if (path.size() >= kMaxPathBytes) {
    return fail(Errc::InvalidValue, "image: the path is longer than 4095 bytes");
  }
  const bool control = std::ranges::any_of(
      path, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (control) {
    return fail(Errc::InvalidValue, quoted(text) + ": the path holds control characters");
  }
  return {};
}

}  // namespace

std::string_view transport_name(Reference::Transport transport) {
  return std::ranges::find(kTransports, transport, &TransportName::transport)->name;
}

Result<Reference> parse_reference(const std::string& text) {
  if (text.empty()) {
    return fail(Errc::InvalidValue, "image is empty; " + std::string(kUse));
  }
  Reference reference;
  std::string rest;
  const auto known = std::ranges::find_if(kTransports, [&text](const TransportName& each) {
    return text.starts_with(std::string(each.name) + ":");
  });
  if (known != kTransports.end()) {
    reference.transport = known->transport;
    rest = text.substr(known->name.size() + 1);
  } else if (text.starts_with('/') || text.starts_with('.')) {
    return fail(Errc::InvalidValue, quoted(text) + " names no transport; " + std::string(kUse));
  } else {
    return fail(
        Errc::NotYetSupported,
        quoted(text) + ": images from registries are not yet supported; " + std::string(kUse));
  }
  const std::size_t colon = rest.find(':');
  reference.path = rest.substr(0, colon);
  ATE_TRY(check_path(text, reference.path));
  if (colon != std::string::npos) {
    reference.tag = rest.substr(colon + 1);
    if (!is_tag(reference.tag)) {
      return fail(Errc::InvalidValue,
                  quoted(text) +
                      ": the tag after the path must be 1 to 255 of A-Z a-z 0-9 . _ - / "
                      ": + @");
    }
  }
  return reference;
}

}  // namespace ate::image
