#include "ate/core/paths.hpp"

#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"

using namespace ate;

namespace {

const std::string kUid = "01j0abcdefghjkmnpqrstvwxyz";

}  // namespace

TEST_CASE("paths: each place on disk") {
  const core::Paths paths("/var/lib/ate", "/run/ate");
  const std::vector<std::pair<std::string, std::string>> rows = {
      {paths.database(), "/var/lib/ate/state.db"},
      {paths.images(), "/var/lib/ate/images"},
      {paths.assets(), "/var/lib/ate/assets"},
      {paths.snapshots(), "/var/lib/ate/snapshots"},
      {paths.actors(), "/var/lib/ate/actors"},
      {paths.actor(kUid), "/var/lib/ate/actors/" + kUid},
      {paths.actor_logs(kUid), "/var/lib/ate/actors/" + kUid + "/logs"},
      {paths.actor_overlay(kUid, 12), "/var/lib/ate/actors/" + kUid + "/overlay/12"},
      {paths.netns(), "/run/ate/netns"},
      {paths.run_actors(), "/run/ate/actors"},
      {paths.run_actor(kUid), "/run/ate/actors/" + kUid},
      {paths.incarnation(kUid, 3), "/run/ate/actors/" + kUid + "/3"},
      {paths.state_dir(), "/var/lib/ate"},
      {paths.run_dir(), "/run/ate"},
  };
  for (const auto& [made, expected] : rows) {
    REQUIRE(made == expected);
  }
}

TEST_CASE("paths: trailing slashes do not double") {
  const core::Paths paths("/var/lib/ate//", "/run/ate/");
  REQUIRE(paths.database() == "/var/lib/ate/state.db");
  REQUIRE(paths.netns() == "/run/ate/netns");
}

TEST_CASE("paths: a run directory whose sockets would not fit is refused by name and by how much") {
  const std::string incarnation = "/actors/" + kUid + "/999999999/vsock_4294967295";
  const std::string fits(107 - incarnation.size(), 'x');
  REQUIRE(core::Paths("/s", "/run/ate").check_lengths());
  REQUIRE(core::Paths("/s", fits).check_lengths());
  const Status refused = core::Paths("/s", fits + "yyy").check_lengths();
  REQUIRE_FALSE(refused);
  REQUIRE(refused.error().code() == Errc::InvalidValue);
  REQUIRE(refused.error().field() == "spec.runDir");
  REQUIRE(refused.error().message().find("3 bytes too long") != std::string::npos);
}
