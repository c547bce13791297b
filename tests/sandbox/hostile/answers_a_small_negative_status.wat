;; expect: invalid
;; role: sampler
(func (export "step") (param i32) (result i32)
  (i32.const -5))
