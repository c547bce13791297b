;; expect: config
;; role: sampler
(func (export "step") (param i32) (result i32)
  (memory.fill (i32.const 10240) (i32.const 65) (i32.const 128)) (i32.const -0x40000001))
