//! A product with the Hessian beside differences of gradients, in Rust: the library is linked as C.

use std::os::raw::c_int;

#[link(name = "rosenbrock", kind = "static")]
#[link(name = "m")]
extern "C" {
    fn rosenbrock_update(x: *const f64, gradient: *mut f64, value: *mut f64) -> c_int;
    fn rosenbrock_apply(v: *const f64, product: *mut f64) -> c_int;
}

const N: usize = 100;

/// Moves the library to a point, and returns the gradient there. It has one state: `&mut Hessian` is the only way to it.
struct Hessian;

impl Hessian {
    fn gradient(&mut self, x: &[f64; N]) -> Result<[f64; N], c_int> {
        let (mut gradient, mut value) = ([0.0; N], 0.0);
        match unsafe { rosenbrock_update(x.as_ptr(), gradient.as_mut_ptr(), &mut value) } {
            0 => Ok(gradient),
            status => Err(status),
        }
    }

    fn product(&mut self, v: &[f64; N]) -> Result<[f64; N], c_int> {
        let mut product = [0.0; N];
        match unsafe { rosenbrock_apply(v.as_ptr(), product.as_mut_ptr()) } {
            0 => Ok(product),
            status => Err(status),
        }
    }
}

fn main() -> Result<(), c_int> {
    let h = 1e-6;
    let x: [f64; N] = std::array::from_fn(|i| (i as f64).sin());
    let v: [f64; N] = std::array::from_fn(|i| (i as f64).cos());
    let mut hessian = Hessian;
    let above = hessian.gradient(&std::array::from_fn(|i| x[i] + h * v[i]))?;
    let below = hessian.gradient(&std::array::from_fn(|i| x[i] - h * v[i]))?;
    hessian.gradient(&x)?;
    let product = hessian.product(&v)?;
    let largest = product.iter().fold(0.0, |m: f64, p| m.max(p.abs()));
    let error = (0..N).fold(0.0, |m: f64, i| m.max((product[i] - (above[i] - below[i]) / (2.0 * h)).abs()));
    println!("H v up to {:.6e}, relative error {:.0e}", largest, error / largest);
    assert!(error < 1e-6 * largest);
    Ok(())
}
