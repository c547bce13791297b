;; expect: 1.4
;; role: sampler
(func $s) (start $s)
