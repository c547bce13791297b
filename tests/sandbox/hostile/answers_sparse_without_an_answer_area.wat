;; expect: invalid
;; role: sampler
(func (export "step") (param i32) (result i32)
  (i32.store (i32.const 8320) (i32.const 16))
  (i32.store (i32.const 8324) (i32.const 5))
  (i32.store (i32.const 8328) (i32.const 1000000))
  (i32.const 0))
