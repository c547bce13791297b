;; expect: trap
;; role: sampler
(data $passive "0123456789abcdef")
(func (export "step") (param i32) (result i32)
  (data.drop $passive) (memory.init $passive (i32.const 65536) (i32.const 0) (i32.const 1)) (i32.const 0))
