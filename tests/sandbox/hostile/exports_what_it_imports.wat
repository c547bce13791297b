;; expect: 1.3
;; role: sampler
(import "env" "step" (func $step (param i32) (result i32)))
(export "step" (func $step))
