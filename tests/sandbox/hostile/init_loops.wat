;; expect: 1.15
;; role: sampler
(func (export "init") (result i32) (loop $l (br $l)) (i32.const 0))
