#pragma once

#include <string>
#include <vector>

#include "ate/async/reaper.hpp"
#include "ate/async/task.hpp"

namespace ate::net {

/// Runs nft and gives what it printed.
class Nft {
 public:
  Nft(async::Context& context, async::Reaper& reaper, std::string executable)
      : context_(context), reaper_(reaper), executable_(std::move(executable)) {}

  /// Ok when the program is there.
  [[nodiscard]] Status check() const;
  /// `script` goes to `-f -` in one transaction. `netns`: where it runs; -1 = ours.
  [[nodiscard]] async::Task<Result<std::string>> apply(std::string script, int netns);
  [[nodiscard]] async::Task<Result<std::string>> list(std::vector<std::string> what);

 private:
  [[nodiscard]] async::Task<Result<std::string>> run(std::vector<std::string> arguments,
                                                     std::string input, int netns);

  async::Context& context_;
  async::Reaper& reaper_;
  std::string executable_;
};

}  // namespace ate::net
