/* Newton's method with conjugate gradients, for a function whose derivatives were compiled by nabla_mlir. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "rosenbrock.h"

static double dot(const double *a, const double *b) {
  double sum = 0;
  for (int i = 0; i < N; ++i) sum += a[i] * b[i];
  return sum;
}

static void check(int status) {
  if (status == NABLA_OK) return;
  fprintf(stderr, "a call failed with status %d (see rosenbrock.h)\n", status);
  exit(1);
}

/* Solves H step = -gradient as far as H bends upwards; returns the number of products. */
static int newton_step(const double *gradient, double *step) {
  static double r[N], p[N], hp[N];
  int products = 0;
  for (int i = 0; i < N; ++i) { step[i] = 0; r[i] = p[i] = -gradient[i]; }
  double rr = dot(r, r), enough = 1e-4 * rr * fmin(1, rr);
  while (rr > enough && products < 2 * N) {
    check(rosenbrock_apply(p, hp));
    ++products;
    double curvature = dot(p, hp);
    if (curvature <= 0) {
      if (products == 1) for (int i = 0; i < N; ++i) step[i] = p[i];
      break;
    }
    double alpha = rr / curvature, before = rr;
    for (int i = 0; i < N; ++i) { step[i] += alpha * p[i]; r[i] -= alpha * hp[i]; }
    rr = dot(r, r);
    for (int i = 0; i < N; ++i) p[i] = r[i] + rr / before * p[i];
  }
  return products;
}

int main(void) {
  static double x[N], tried[N], gradient[N], step[N];
  double value, now;
  int products = 0, iterations = 0;
  for (int i = 0; i < N; ++i) x[i] = 0;
  check(rosenbrock_update(x, gradient, &value));
  for (; iterations < 500 && sqrt(dot(gradient, gradient)) > 1e-8; ++iterations) {
    products += newton_step(gradient, step);
    double slope = dot(gradient, step), t = 1;
    for (;; t /= 2) {
      for (int i = 0; i < N; ++i) tried[i] = x[i] + t * step[i];
      check(rosenbrock_update(tried, gradient, &now));
      if (now <= value + 1e-4 * t * slope || t < 1e-12) break;
    }
    for (int i = 0; i < N; ++i) x[i] = tried[i];
    value = now;
  }
  printf("%d iterations, %d Hessian products: f = %.3e, |gradient| = %.1e, x[0] = %.9f\n", iterations, products, value,
         sqrt(dot(gradient, gradient)), x[0]);
  return value < 1e-12 ? 0 : 1;
}
