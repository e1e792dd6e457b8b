// What starts and guests run on is not collected, whatever else names it.
#include <set>

#include "calls.hpp"

using namespace ate;
using namespace ate::test;
using engine::Side;

namespace {

using Digests = std::set<std::string>;

const Digests kOld{"sha256:00", "sha256:image"};

/// A world whose template says what its image is.
template <class F>
void with_image(F body) {
  with_calls([&body](World& w, async::TaskScope& calls) -> async::Task<void> {
    v1alpha1::TemplateStatus& status = *w.templates.templates.at("counter")->mutable_status();
    status.add_images()->set_digest("sha256:image");
    REQUIRE(w.engine->in_use().empty());
    co_await w.create("a");
    co_await body(w, calls);
  });
}

/// The last task of a guest ends a moment after the answer.
async::Task<void> let_go(World& w) {
  co_await w.until([&w]() { return w.engine->in_use().empty(); });
}

}  // namespace

TEST_CASE("in use: from the choice of a worker until the guest is gone, whatever is in force") {
  with_image([](World& w, async::TaskScope& calls) -> async::Task<void> {
    Gate gate(w, "boot");
    Side<VerbResult> start(w.context, calls, "start", w.resume("a"));
    co_await gate.reached.wait();
    REQUIRE(w.engine->in_use() == kOld);
    // Another runsc comes while the old one boots, and nothing but the start names the old one.
    auto other = std::make_shared<v1alpha1::SandboxConfig>(*w.templates.config);
    (*other->mutable_status()->mutable_pinned())["runsc"] = "sha256:11";
    w.templates.config = other;
    REQUIRE(w.engine->in_use() == kOld);
    gate.open.set();
    ok(co_await start.join());
    REQUIRE(w.engine->in_use() == kOld);
    co_await must(w.snapshot("a"));
    REQUIRE(w.engine->in_use() == kOld);
    co_await must(w.revert("a"));
    co_await let_go(w);
    co_await must(w.resume("a"));
    REQUIRE(w.engine->in_use() == Digests{"sha256:11", "sha256:image"});
    co_await must(w.remove("a", true));
    co_await let_go(w);
  });
}

TEST_CASE("in use: a start that fails lets go") {
  with_image([](World& w, async::TaskScope&) -> async::Task<void> {
    w.fail_next("boot", Errc::RuntimeFailed);
    co_await refused(w.resume("a"), Errc::RuntimeFailed);
    co_await let_go(w);
  });
}

TEST_CASE("in use: two that run on the same") {
  with_image([](World& w, async::TaskScope&) -> async::Task<void> {
    co_await w.create("b");
    co_await must(w.resume("a"));
    co_await must(w.resume("b"));
    co_await must(w.suspend("a"));
    REQUIRE(w.engine->in_use() == kOld);
    co_await must(w.suspend("b"));
    co_await let_go(w);
  });
}
