;; expect: 1.9
;; role: sampler
(func (export "vocabulary") (param i32 i32) (result i32) (i32.const 65536))
