// A product with the Hessian beside differences of gradients, in C++: rosenbrock.h is for both languages.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <vector>

#include "rosenbrock.h"

using Vector = std::vector<double>;

static void check(int status) {
  if (status != NABLA_OK) throw std::runtime_error("a call failed: see rosenbrock.h");
}

static Vector gradient(const Vector &x) {
  Vector result(x.size());
  check(rosenbrock_update(x.data(), result.data(), nullptr));  // nobody asks for the value
  return result;
}

int main() {
  const int n = 100;
  const double h = 1e-6;
  Vector x(n), v(n), above(n), below(n), product(n);
  for (int i = 0; i < n; ++i) {
    x[i] = std::sin(i);
    v[i] = std::cos(i);
    above[i] = x[i] + h * v[i];
    below[i] = x[i] - h * v[i];
  }
  const Vector high = gradient(above), low = gradient(below);
  gradient(x);  // moves to x
  check(rosenbrock_apply(v.data(), product.data()));
  double largest = 0, error = 0;
  for (int i = 0; i < n; ++i) {
    largest = std::max(largest, std::abs(product[i]));
    error = std::max(error, std::abs(product[i] - (high[i] - low[i]) / (2 * h)));
  }
  std::printf("H v up to %.6e, relative error %.0e\n", largest, error / largest);
  return error < 1e-6 * largest ? 0 : 1;
}
