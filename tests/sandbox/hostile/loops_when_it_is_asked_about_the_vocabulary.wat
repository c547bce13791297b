;; expect: 1.15
;; role: sampler
(func (export "vocabulary") (param i32) (result i32) (loop $l (br $l)) (i32.const 65536))
