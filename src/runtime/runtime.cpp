#include "ate/runtime/runtime.hpp"

namespace ate::runtime {

async::Task<void> Runtime::shutdown() {
  co_return;
}

}  // namespace ate::runtime
