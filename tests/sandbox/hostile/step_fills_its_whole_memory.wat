;; expect: invalid
;; role: sampler
(func (export "step") (param i32) (result i32)
  (memory.fill (i32.const 0) (i32.const 0xff) (i32.const 131072)) (i32.const 0))
