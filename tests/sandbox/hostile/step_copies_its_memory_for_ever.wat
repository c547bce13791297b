;; expect: timeout
;; role: sampler
(func (export "step") (param i32) (result i32)
  (loop $more (memory.copy (i32.const 65536) (i32.const 65537) (i32.const 65535)) (br $more))
  (i32.const 0))
