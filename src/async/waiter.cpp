#include "async/waiter.hpp"

namespace ate::async {

Waiter::~Waiter() {
  if (list_ != nullptr) {
    list_->remove(*this);
  }
}

WaiterList::~WaiterList() {
  for (Waiter* waiter = pop_front(); waiter != nullptr; waiter = pop_front()) {
    waiter->woken = false;
    waiter->timer.cancel();
  }
}

void WaiterList::push_back(Waiter& waiter) noexcept {
  waiter.list_ = this;
  waiter.previous_ = last_;
  waiter.next_ = nullptr;
  (last_ == nullptr ? first_ : last_->next_) = &waiter;
  last_ = &waiter;
}

Waiter* WaiterList::pop_front() noexcept {
  Waiter* waiter = first_;
  if (waiter != nullptr) {
    remove(*waiter);
  }
  return waiter;
}

void WaiterList::remove(Waiter& waiter) noexcept {
  (waiter.previous_ == nullptr ? first_ : waiter.previous_->next_) = waiter.next_;
  (waiter.next_ == nullptr ? last_ : waiter.next_->previous_) = waiter.previous_;
  waiter.list_ = nullptr;
  waiter.previous_ = nullptr;
  waiter.next_ = nullptr;
}

}  // namespace ate::async
