# A product with the Hessian beside differences of gradients, in Julia: julia product.jl librosenbrock.so

const library = ARGS[1]
const n = 100

check(status) = status == 0 || error("a call failed with status $status: see rosenbrock.h")

function gradient(x)
    result, value = zeros(n), Ref(0.0)
    check(ccall((:rosenbrock_update, library), Cint, (Ptr{Cdouble}, Ptr{Cdouble}, Ptr{Cdouble}), x, result, value))
    return result
end

function product(v)
    result = zeros(n)
    check(ccall((:rosenbrock_apply, library), Cint, (Ptr{Cdouble}, Ptr{Cdouble}), v, result))
    return result
end

h, x, v = 1e-6, sin.(0:n-1), cos.(0:n-1)
above, below = gradient(x + h * v), gradient(x - h * v)
gradient(x)  # moves to x
Hv = product(v)
difference = maximum(abs, Hv - (above - below) / 2h)
println("H v up to ", maximum(abs, Hv), ", relative error ", difference / maximum(abs, Hv))
@assert difference < 1e-6 * maximum(abs, Hv)
