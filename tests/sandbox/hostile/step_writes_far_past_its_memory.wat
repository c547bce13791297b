;; expect: trap
;; role: sampler
(func (export "step") (param i32) (result i32)
  (i32.store offset=4294967280 (i32.const -1) (i32.const 1)) (i32.const 0))
