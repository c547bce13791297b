;; expect: error
;; role: sampler
(func (export "step") (param i32) (result i32)
  (if (i32.ne (memory.grow (i32.const 1)) (i32.const -1)) (then (unreachable))) (i32.const -0x40000000))
