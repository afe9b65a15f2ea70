"""Optimal control of a pendulum

The program swings a pendulum up with little torque. The cost is a loop of 60 steps. Its gradient and its Hessian-vector products
are derivatives of that loop, and `nm.minimize` calls one artifact for both.
"""

import matplotlib.pyplot as plt
import numpy as np

import nabla_mlir as nm
import nabla_mlir.numpy as nnp

STEPS, DT = 60, 0.05


def swing(torques):
    def step(state, torque):
        angle, speed = state
        speed = speed + DT * (torque - 9.81 * nnp.sin(angle) - 0.2 * speed)
        angle = angle + DT * speed
        return (angle, speed), nnp.stack([angle, speed])

    zero = torques[0] * 0.0
    return nm.scan(step, (zero, zero), torques)


def cost(torques):
    (angle, speed), _ = swing(torques)
    return 5e-3 * nnp.sum(torques**2) + 50.0 * (angle - np.pi) ** 2 + 5.0 * speed**2


start = 8.0 * np.sin(np.linspace(0, 9, STEPS))
rough = nm.minimize(cost, start, method="L-BFGS-B", options={"maxiter": 400})  # finds the valley,
best = nm.minimize(cost, rough.x, method="trust-exact", options={"gtol": 1e-7, "maxiter": 100})  # and Newton its bottom
_, states = nm.jit(swing)(np.asarray(best.x))
states = np.asarray(states)

slope = np.asarray(nm.grad(cost)(np.asarray(best.x)))
print(f"{rough.nit} and {best.nit} iterations, cost {best.fun:.4f}, |gradient| {np.linalg.norm(slope):.1e}")
print(f"final angle {states[-1, 0] / np.pi:.3f} π")
assert np.linalg.norm(slope) < 1e-4
assert abs(states[-1, 0] - np.pi) < 0.15
assert np.abs(states[-1, 1]) < 0.3
value, little = nm.jit(cost), 1e-6 * np.eye(STEPS)[7]
numeric = (float(value(start + little)) - float(value(start - little))) / 2e-6
assert abs(numeric - float(nm.grad(cost)(start)[7])) < 1e-4

time = DT * np.arange(1, STEPS + 1)
figure, (above, below) = plt.subplots(2, 1, sharex=True)
above.plot(time, states[:, 0] / np.pi)
above.axhline(1, color="k", linestyle=":")
above.set_ylabel("angle / π")
above.set_title("A pendulum swings up")
below.step(time, np.asarray(best.x), where="post", color="tab:orange")
below.set_ylabel("torque")
below.set_xlabel("seconds")
