// Leases of objects that are costly to set up and used by one at a time.
#pragma once
#include <memory>
#include <vector>

namespace rulegrad {

// Rewriting may be nested in one thread (an extern that rewrites), so side tables are taken from a pool, and given back.
template <typename T>
class Lease {
 public:
  Lease() {
    if (pool().empty()) {
      table_ = std::make_unique<T>();
    } else {
      table_ = std::move(pool().back());
      pool().pop_back();
    }
  }
  ~Lease() { pool().push_back(std::move(table_)); }
  Lease(const Lease&) = delete;
  T& operator*() { return *table_; }
  T* operator->() { return table_.get(); }

 private:
  static std::vector<std::unique_ptr<T>>& pool() {
    static thread_local std::vector<std::unique_ptr<T>> tables;
    return tables;
  }
  std::unique_ptr<T> table_;
};

}  // namespace rulegrad
