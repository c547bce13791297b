;; expect: 1.12
;; role: sampler
(func $f (return_call $f))
