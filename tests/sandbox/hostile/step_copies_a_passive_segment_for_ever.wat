;; expect: timeout
;; role: sampler
(data $passive "0123456789abcdef")
(func (export "step") (param i32) (result i32)
  (loop $more (memory.init $passive (i32.const 65536) (i32.const 0) (i32.const 16)) (br $more))
  (i32.const 0))
