#pragma once

#include <exception>
#include <string>
#include <utility>

#include "engine/side.hpp"
#include "world.hpp"

namespace ate::test {

/// Holds every call of one name until `open`.
struct Gate {
  Gate(World& w, std::string name)
      : world(w), call(std::move(name)), open(w.context), reached(w.context) {
    world.runtime.gate = [this](std::string entered, std::string uid) -> async::Task<void> {
      return pass(*this, std::move(entered), std::move(uid));
    };
  }

  ~Gate() { world.runtime.gate = nullptr; }

  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  Gate(Gate&&) = delete;
  Gate& operator=(Gate&&) = delete;

  static async::Task<void> pass(Gate& gate, std::string entered, std::string uid) {
    if (entered != gate.call) {
      co_return;
    }
    gate.reached.set();
    const std::shared_ptr<FakeProcess> process = gate.world.host.of(uid);
    if (process == nullptr || !gate.until_killed) {
      co_await gate.open.wait();
      co_return;
    }
    co_await process->ended.wait();
  }

  World& world;
  std::string call;
  bool until_killed = false;  // like a hung runsc: only its end opens
  async::Event open;
  async::Event reached;
};

/// A world with a scope for calls that run beside the test.
template <class F>
void with_calls(F body) {
  with_world([&body](World& w) -> async::Task<void> {
    async::TaskScope calls(w.context, nullptr);
    std::exception_ptr error;
    try {
      co_await body(w, calls);
    } catch (...) {
      error = std::current_exception();
    }
    co_await calls.close();
    if (error) {
      std::rethrow_exception(error);
    }
  });
}

}  // namespace ate::test
