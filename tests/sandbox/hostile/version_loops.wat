;; expect: 1.15
;; role: sampler
(func (export "sealhost_sampler_v1") (result i32) (loop $l (br $l)) (i32.const 0))
